/* The programs of benches/src/kernel over MPI: integer sort (is) and conjugate gradients (cg), of blocking calls. What they do and
 * why is said there. They are the same line for line, but for the counts of keys that the ranks of an integer sort tell each other:
 * by an alltoall here, which is all that MPI_Alltoallv needs to know, and by an allgather there. */

enum { VALUES = 1 << 16, BUCKETS = 1 << 10, VALUES_OF_BUCKET = VALUES / BUCKETS };

static void *zeros(long count, long bytes) {
    void *start = calloc(count ? count : 1, bytes);
    if (!start) MPI_Abort(MPI_COMM_WORLD, 1);
    return start;
}

static void wrong(const char *what) {
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void wrong_at(const char *what, long index) {
    fprintf(stderr, "%s %ld is wrong\n", what, index);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

struct sort {
    long round, count, received_count, room;
    unsigned *keys, *ordered, *received; /* `room` keys fit into the last */
    unsigned first, end; /* the values that were dealt to this rank */
    unsigned *key_ranks;
    unsigned *counts, *totals, *places; /* of buckets */
    int *dealt; /* the first bucket of each rank */
    int *sent, *sent_at, *come, *come_at;
};

static void sort_set_up(struct sort *s, long bytes) {
    unsigned long long state = me + 1;
    *s = (struct sort){ .count = bytes / (long)sizeof(unsigned) };
    s->keys = zeros(s->count, sizeof *s->keys), s->ordered = zeros(s->count, sizeof *s->ordered);
    s->key_ranks = zeros(VALUES, sizeof *s->key_ranks);
    s->counts = zeros(BUCKETS, sizeof *s->counts), s->totals = zeros(BUCKETS, sizeof *s->totals);
    s->places = zeros(BUCKETS, sizeof *s->places), s->dealt = zeros(np + 1, sizeof *s->dealt);
    s->sent = zeros(np, sizeof(int)), s->sent_at = zeros(np, sizeof(int));
    s->come = zeros(np, sizeof(int)), s->come_at = zeros(np, sizeof(int));
    for (long i = 0; i < s->count; i++) {
        unsigned sum = 0;
        for (int j = 0; j < 4; j++) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            sum += (unsigned)(state >> 48) % VALUES;
        }
        s->keys[i] = sum / 4;
    }
}

static void sort_change(struct sort *s) {
    s->round++;
    if (!s->count) return;
    unsigned value = s->round % VALUES;
    s->keys[s->round % s->count] = value;
    s->keys[(s->round + s->count / 2) % s->count] = VALUES - 1 - value;
}

static void sort_order(struct sort *s) {
    unsigned below = 0;
    memset(s->counts, 0, BUCKETS * sizeof *s->counts);
    for (long i = 0; i < s->count; i++) s->counts[s->keys[i] / VALUES_OF_BUCKET]++;
    for (int b = 0; b < BUCKETS; b++) s->places[b] = below, below += s->counts[b];
    for (long i = 0; i < s->count; i++) s->ordered[s->places[s->keys[i] / VALUES_OF_BUCKET]++] = s->keys[i];
}

static void sort_deal(struct sort *s) {
    unsigned long long all = 0, below = 0;
    int bucket = 0;
    for (int b = 0; b < BUCKETS; b++) all += s->totals[b];
    for (int rank = 1; rank <= np; rank++) {
        while (below * np < rank * all) below += s->totals[bucket++];
        s->dealt[rank] = bucket;
    }
}

static void sort_rank(struct sort *s) {
    unsigned up_to = 0;
    memset(s->key_ranks, 0, (s->end - s->first) * sizeof *s->key_ranks);
    for (long i = 0; i < s->received_count; i++) s->key_ranks[s->received[i] - s->first]++;
    for (unsigned v = 0; v < s->end - s->first; v++) up_to += s->key_ranks[v], s->key_ranks[v] = up_to;
}

static void sort_round(struct sort *s) {
    sort_change(s);
    sort_order(s);
    MPI_Allreduce(s->counts, s->totals, BUCKETS, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD);
    sort_deal(s);
    for (int rank = 0; rank < np; rank++) {
        s->sent[rank] = 0;
        for (int b = s->dealt[rank]; b < s->dealt[rank + 1]; b++) s->sent[rank] += s->counts[b];
    }
    MPI_Alltoall(s->sent, 1, MPI_INT, s->come, 1, MPI_INT, MPI_COMM_WORLD);
    for (int rank = 1; rank < np; rank++) {
        s->sent_at[rank] = s->sent_at[rank - 1] + s->sent[rank - 1];
        s->come_at[rank] = s->come_at[rank - 1] + s->come[rank - 1];
    }
    s->received_count = s->come_at[np - 1] + s->come[np - 1];
    if (s->received_count > s->room) {
        free(s->received);
        s->room = s->received_count + s->received_count / 8;
        s->received = zeros(s->room, sizeof *s->received);
    }
    MPI_Alltoallv(s->ordered, s->sent, s->sent_at, MPI_UNSIGNED, s->received, s->come, s->come_at, MPI_UNSIGNED,
                  MPI_COMM_WORLD);
    s->first = s->dealt[me] * VALUES_OF_BUCKET, s->end = s->dealt[me + 1] * VALUES_OF_BUCKET;
    sort_rank(s);
}

static void sort_check(struct sort *s) {
    long mine[2] = { s->count - s->received_count, 0 }, all[2];
    unsigned *sorted = zeros(s->received_count, sizeof *sorted);
    for (long i = 0; i < s->count; i++) mine[1] += s->keys[i];
    for (long i = 0; i < s->received_count; i++) {
        unsigned key = s->received[i];
        if (key < s->first || key >= s->end) wrong("a key came to a wrong rank");
        mine[1] -= key, sorted[--s->key_ranks[key - s->first]] = key;
    }
    for (long i = 1; i < s->received_count; i++)
        if (sorted[i - 1] > sorted[i]) wrong("keys are not sorted");
    MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (all[0] || all[1]) wrong("keys are missing");
    free(sorted);
}

static void sort_tear_down(struct sort *s) {
    free(s->keys), free(s->ordered), free(s->received), free(s->key_ranks), free(s->counts), free(s->totals), free(s->places);
    free(s->dealt), free(s->sent), free(s->sent_at), free(s->come), free(s->come_at);
}

struct gradients {
    long width, points;
    double *b, *x, *r, *q, *p; /* p with the row above and the one below */
};

static double solution(long point) { return (double)(point % 7 + 1); }

/* A times the solution at a point, of so many. */
static double right_side(long point, long width, long all) {
    long column = point % width, begin = point - column;
    return 5 * solution(point) - solution(begin + (column + width - 1) % width) - solution(begin + (column + 1) % width)
         - solution((point + all - width) % all) - solution((point + width) % all);
}

static void gradients_set_up(struct gradients *g, long bytes) {
    long width = 1, points = bytes / (long)sizeof(double);
    if (points < 1) points = 1;
    while (4 * width * width <= points) width *= 2;
    points -= points % width;
    *g = (struct gradients){ .width = width, .points = points };
    g->b = zeros(points, sizeof(double)), g->x = zeros(points, sizeof(double)), g->r = zeros(points, sizeof(double));
    g->q = zeros(points, sizeof(double)), g->p = zeros(points + 2 * width, sizeof(double));
    for (long i = 0; i < points; i++) g->b[i] = right_side(me * points + i, width, np * points);
}

static void gradients_multiply(struct gradients *g) {
    long width = g->width, points = g->points;
    int above = (me + np - 1) % np, below = (me + 1) % np, n = (int)width;
    MPI_Sendrecv(g->p + points, n, MPI_DOUBLE, below, 1, g->p, n, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(g->p + width, n, MPI_DOUBLE, above, 2, g->p + points + width, n, MPI_DOUBLE, below, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (long row = 0; row < points / width; row++) {
        const double *restrict up = g->p + row * width, *restrict here = up + width, *restrict down = here + width;
        double *restrict products = g->q + row * width;
        for (long column = 0; column < width; column++) {
            double left = here[column == 0 ? width - 1 : column - 1];
            double right = here[column == width - 1 ? 0 : column + 1];
            products[column] = 5.0 * here[column] - left - right - up[column] - down[column];
        }
    }
}

static double gradients_dot(const struct gradients *g, const double *left, const double *right) {
    double own = 0, sum;
    for (long i = 0; i < g->points; i++) own += left[i] * right[i];
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static void gradients_round(struct gradients *g) {
    double *restrict own = g->p + g->width, *restrict x = g->x, *restrict r = g->r, *restrict q = g->q;
    long points = g->points;
    memset(x, 0, points * sizeof *x);
    memcpy(r, g->b, points * sizeof *r), memcpy(own, g->b, points * sizeof *own);
    double first = gradients_dot(g, r, r), rr = first;
    for (int i = 0; i < 25 && rr > first * 1e-30; i++) {
        gradients_multiply(g);
        double alpha = rr / gradients_dot(g, own, q), before = rr;
        for (long j = 0; j < points; j++) x[j] += alpha * own[j], r[j] -= alpha * q[j];
        rr = gradients_dot(g, r, r);
        double beta = rr / before;
        for (long j = 0; j < points; j++) own[j] = r[j] + beta * own[j];
    }
}

static void gradients_check(struct gradients *g) {
    for (long i = 0; i < g->points; i++) g->q[i] = solution(me * g->points + i), g->r[i] = g->x[i] - g->q[i];
    /* Of squares. */
    if (!(gradients_dot(g, g->r, g->r) <= 1e-12 * gradients_dot(g, g->q, g->q))) wrong("the solution is wrong");
}

static void gradients_tear_down(struct gradients *g) { free(g->b), free(g->x), free(g->r), free(g->q), free(g->p); }
