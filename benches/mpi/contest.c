/* The other side of `ropeway bench compare`: the same contests as benches/src/contest.rs, over MPI.
 *
 *   contest KIND FORM TOUCH BATCH_S SIZE...
 *
 *   KIND latency|bandwidth|exchange, or one of NAMES, or overlap|overlap:NAME|asynchrony|persistence|overhead, or is|cg
 *   FORM persistent|nonblocking, or for latency, exchange and the collectives blocking, or for is and cg only that   TOUCH 0|1
 *
 * Rank 0 prints "version TEXT", then "SIZE MEDIAN" for each size: microseconds, 10^6 bytes a second, or messages a second. Of overlap,
 * asynchrony, persistence and overhead there are several figures behind each size, in the order of benches/src/contest/kind.rs.
 * A wrong byte or result ends it with status 1. */
#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION == 4
#include <mpi-ext.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 5, BATCHES_OF_BENCHMARKS = 2, WINDOW = 64, WINDOW_BYTES = 256 << 20, VALUES_OF_PLACES = 251, SPOILT = 255 };

static int me, np, persistent, touch;
static int renews; /* whether what a rank sends is new in each round, though not touched in what is timed */

#include "kernels.h"

static void *memory(long bytes) {
    void *start = NULL;
    if (posix_memalign(&start, 4096, bytes ? bytes : 1) || !start) MPI_Abort(MPI_COMM_WORLD, 1);
    return memset(start, 0, bytes);
}

/* What a rank sends: a pattern of its own that stays, or in each round another value. Never what receivers are spoilt with. */
static unsigned value(int rank, long place, long round) {
    if (touch) return (unsigned)(round % VALUES_OF_PLACES);
    return (7u * (unsigned)rank + (unsigned)place + (renews ? 31u * (unsigned)round : 0)) % VALUES_OF_PLACES + 1;
}

/* What is timed. */
struct contest {
    void *what;
    void (*rounds)(void *what, long count);
    void (*spoil)(void *what); /* what has come, so that it is seen whether it comes again; may be null */
    double (*figure)(const void *what, double round_s);
};

/* How many rounds fill a batch, found by doing more and more of them: the first ones take longer than others, and a batch of few
   would measure how ranks leave the barrier before it. */
static long rounds_in_batch(const struct contest *c, double batch_s) {
    long rounds = 1, factor = 0;
    while (factor != 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        c->rounds(c->what, rounds);
        double took = MPI_Wtime() - begin;
        factor = 2 * took > batch_s ? 1 : 8 * took < batch_s ? 8 : (long)(batch_s / took);
        MPI_Bcast(&factor, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        rounds *= factor;
    }
    return rounds;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Does batches of rounds, each for `batch_s` seconds, and prints what a round takes, averaged over the ranks, as a figure. */
static void time_rounds(const struct contest *c, long bytes, double batch_s) {
    long rounds = rounds_in_batch(c, batch_s);
    double figures[BATCHES];
    if (c->spoil) c->spoil(c->what);
    for (int b = 0; b < BATCHES; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        c->rounds(c->what, rounds);
        double mine = MPI_Wtime() - begin, sum = 0;
        MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        figures[b] = c->figure(c->what, sum / np / rounds);
    }
    qsort(figures, BATCHES, sizeof *figures, compare);
    if (!me) printf("%ld %.9g\n", bytes, figures[BATCHES / 2]), fflush(stdout);
}

static double microseconds(const void *what, double round_s) { (void)what; return round_s * 1e6; }

/* Requests and buffers of one rank. */
struct side {
    int leads;
    int window, is_window; /* messages at once, and whether they are answered */
    int sends, recvs; /* how many of them */
    long bytes, round;
    char *out, *in;
    char ack; /* the answer to a window */
    int to, from;
    MPI_Request send[WINDOW], recv[WINDOW], answer;
};

static void set_up(struct side *s) {
    s->out = memory(s->bytes * s->window), s->in = memory(s->bytes * s->window);
    for (long i = 0; i < s->bytes * s->sends; i++) s->out[i] = (char)value(me, i, 0);
    s->ack = 1;
    if (!persistent) return;
    for (int i = 0; i < s->sends; i++)
        MPI_Send_init(s->out + i * s->bytes, s->bytes, MPI_CHAR, s->to, 1, MPI_COMM_WORLD, &s->send[i]);
    for (int i = 0; i < s->recvs; i++)
        MPI_Recv_init(s->in + i * s->bytes, s->bytes, MPI_CHAR, s->from, 1, MPI_COMM_WORLD, &s->recv[i]);
    if (s->is_window && s->leads) MPI_Recv_init(&s->ack, 1, MPI_CHAR, s->from, 2, MPI_COMM_WORLD, &s->answer);
    else if (s->is_window) MPI_Send_init(&s->ack, 1, MPI_CHAR, s->to, 2, MPI_COMM_WORLD, &s->answer);
}

static void tear_down(struct side *s) {
    if (persistent) {
        for (int i = 0; i < s->sends; i++) MPI_Request_free(&s->send[i]);
        for (int i = 0; i < s->recvs; i++) MPI_Request_free(&s->recv[i]);
        if (s->is_window) MPI_Request_free(&s->answer);
    }
    free(s->out), free(s->in);
}

static void start_recvs(struct side *s) {
    if (persistent) { MPI_Startall(s->recvs, s->recv); return; }
    for (int i = 0; i < s->recvs; i++)
        MPI_Irecv(s->in + i * s->bytes, s->bytes, MPI_CHAR, s->from, 1, MPI_COMM_WORLD, &s->recv[i]);
}

static void write_anew(struct side *s) {
    if (touch) memset(s->out, (int)value(me, 0, s->round), s->bytes * s->sends);
}

static void start_sends(struct side *s) {
    write_anew(s);
    if (persistent) { MPI_Startall(s->sends, s->send); return; }
    for (int i = 0; i < s->sends; i++)
        MPI_Isend(s->out + i * s->bytes, s->bytes, MPI_CHAR, s->to, 1, MPI_COMM_WORLD, &s->send[i]);
}

static void wait_sends(struct side *s) { MPI_Waitall(s->sends, s->send, MPI_STATUSES_IGNORE); }
static void wait_recvs(struct side *s) { MPI_Waitall(s->recvs, s->recv, MPI_STATUSES_IGNORE); }

static void latency(void *what, long rounds) {
    struct side *s = what;
    for (; rounds; rounds--) {
        s->round++;
        start_recvs(s);
        if (s->leads) start_sends(s), wait_sends(s), wait_recvs(s);
        else wait_recvs(s), start_sends(s), wait_sends(s);
    }
}

static void latency_by_blocking(void *what, long rounds) {
    struct side *s = what;
    for (; rounds; rounds--) {
        s->round++;
        if (!s->leads) MPI_Recv(s->in, s->bytes, MPI_CHAR, s->from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        write_anew(s);
        MPI_Send(s->out, s->bytes, MPI_CHAR, s->to, 1, MPI_COMM_WORLD);
        if (s->leads) MPI_Recv(s->in, s->bytes, MPI_CHAR, s->from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Of the byte that says a window has come. */
static void start_answer(struct side *s) {
    if (persistent) MPI_Start(&s->answer);
    else if (s->leads) MPI_Irecv(&s->ack, 1, MPI_CHAR, s->from, 2, MPI_COMM_WORLD, &s->answer);
    else MPI_Isend(&s->ack, 1, MPI_CHAR, s->to, 2, MPI_COMM_WORLD, &s->answer);
}

static void wait_answer(struct side *s) { MPI_Wait(&s->answer, MPI_STATUS_IGNORE); }

/* Its receive is started before the sends, as ours is. A window has no blocking form: it is many messages at once. */
static void bandwidth(void *what, long rounds) {
    struct side *s = what;
    for (; rounds; rounds--) {
        s->round++;
        if (s->leads) start_answer(s), start_sends(s), wait_sends(s), wait_answer(s);
        else start_recvs(s), wait_recvs(s), start_answer(s), wait_answer(s);
    }
}

static void exchange(void *what, long rounds) {
    struct side *s = what;
    for (; rounds; rounds--) {
        s->round++;
        start_recvs(s), start_sends(s), wait_recvs(s), wait_sends(s);
    }
}

static void exchange_by_blocking(void *what, long rounds) {
    struct side *s = what;
    for (; rounds; rounds--) {
        s->round++;
        write_anew(s);
        MPI_Sendrecv(s->out, s->bytes, MPI_CHAR, s->to, 1, s->in, s->bytes, MPI_CHAR, s->from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static double half_rtt(const void *what, double round_s) { return microseconds(what, round_s / 2); }
static double messages_a_second(const void *what, double round_s) { (void)what; return np / round_s; }
static double megabytes_a_second(const void *what, double round_s) {
    const struct side *s = what;
    return (double)s->bytes * s->window * (np / 2) / round_s / 1e6;
}

static void spoil_messages(void *what) {
    struct side *s = what;
    memset(s->in, SPOILT, s->bytes * s->recvs);
    if (s->leads) s->ack = 0;
}

static void check_messages(const struct side *s) {
    for (long i = 0; i < s->bytes * s->recvs; i++)
        if (s->in[i] != (char)value(s->from, i, s->round)) wrong_at("byte", i);
    if (s->is_window && s->ack != 1) wrong("an answer is wrong");
}

static void messages(const char *kind, char form, long bytes, double batch_s) {
    int is_window = !strcmp(kind, "bandwidth"), is_exchange = !strcmp(kind, "exchange"), is_blocking = form == 'b', half = np / 2;
    struct side s = { .leads = me < half, .bytes = bytes, .window = 1, .is_window = is_window };
    if (is_window) s.window = bytes * WINDOW > WINDOW_BYTES ? (int)(WINDOW_BYTES / bytes) : WINDOW;
    if (s.window < 1) s.window = 1;
    s.sends = is_window && !s.leads ? 0 : s.window, s.recvs = is_window && s.leads ? 0 : s.window;
    if (is_exchange) s.to = (me + 1) % np, s.from = (me + np - 1) % np;
    else s.to = s.from = s.leads ? me + half : me - half;
    struct contest c = { &s, is_blocking ? latency_by_blocking : latency, spoil_messages, half_rtt };
    if (is_window) c.rounds = bandwidth, c.figure = megabytes_a_second;
    if (is_exchange) c.rounds = is_blocking ? exchange_by_blocking : exchange, c.figure = messages_a_second;
    set_up(&s);
    time_rounds(&c, bytes, batch_s);
    check_messages(&s);
    tear_down(&s);
}

enum operation {
    BARRIER, BCAST, REDUCE, ALLREDUCE, REDUCE_SCATTER, SCAN, EXSCAN, GATHER, SCATTER, ALLGATHER, ALLTOALL,
    NEIGHBOR_ALLGATHER, NEIGHBOR_ALLTOALL, OPERATIONS
};

static const char *const NAMES[OPERATIONS] = {
    "barrier", "bcast", "reduce", "allreduce", "reduce-scatter", "scan", "exscan", "gather", "scatter", "allgather", "alltoall",
    "neighbor-allgather", "neighbor-alltoall"
};

/* All ranks on a grid that is closed in each dimension: two of them, as even as possible, or a ring. */
static MPI_Comm grid = MPI_COMM_NULL;
static int neighbours, around[4]; /* of each dimension the one before, and the one after */

static void set_up_grid(void) {
    int dims[2] = { 0, 0 }, is_closed[2] = { 1, 1 };
    MPI_Dims_create(np, 2, dims);
    neighbours = dims[1] == 1 ? 2 : 4;
    MPI_Cart_create(MPI_COMM_WORLD, neighbours / 2, dims, is_closed, 0, &grid);
    for (int d = 0; d < neighbours / 2; d++) MPI_Cart_shift(grid, d, 1, &around[2 * d], &around[2 * d + 1]);
}

/* One rank's part in a collective, with root 0. Doubles are added up, else bytes are passed on. */
struct together {
    enum operation operation;
    char form; /* p(ersistent), n(onblocking), b(locking) */
    int adds;
    int count; /* elements of a block */
    long brought, got; /* elements of this rank's */
    char *in, *out;
    long round;
    MPI_Request request;
};

/* Open MPI had them before it had the rest of MPI 4: first as an extension. */
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define REGISTER(name, ...) MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &t->request)
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define REGISTER(name, ...) MPIX_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &t->request)
#else
#define REGISTER(name, ...) \
    do { fprintf(stderr, "it has no persistent collectives\n"), MPI_Abort(MPI_COMM_WORLD, 3); } while (0)
#endif

/* The same arguments in all forms; a persistent one is only registered. */
#define CALL(name, nonblocking, ...) \
    do { \
        if (t->form == 'b') MPI_##name(__VA_ARGS__); \
        else if (t->form == 'n') MPI_##nonblocking(__VA_ARGS__, &t->request); \
        else REGISTER(name, __VA_ARGS__); \
    } while (0)

static void call(struct together *t) {
    MPI_Comm w = MPI_COMM_WORLD;
    void *in = t->in, *out = t->out;
    int n = t->count;
    switch (t->operation) {
    case BARRIER: CALL(Barrier, Ibarrier, w); break;
    case BCAST: CALL(Bcast, Ibcast, out, n, MPI_CHAR, 0, w); break;
    case REDUCE: CALL(Reduce, Ireduce, in, out, n, MPI_DOUBLE, MPI_SUM, 0, w); break;
    case ALLREDUCE: CALL(Allreduce, Iallreduce, in, out, n, MPI_DOUBLE, MPI_SUM, w); break;
    case REDUCE_SCATTER: CALL(Reduce_scatter_block, Ireduce_scatter_block, in, out, n, MPI_DOUBLE, MPI_SUM, w); break;
    case SCAN: CALL(Scan, Iscan, in, out, n, MPI_DOUBLE, MPI_SUM, w); break;
    case EXSCAN: CALL(Exscan, Iexscan, in, out, n, MPI_DOUBLE, MPI_SUM, w); break;
    case GATHER: CALL(Gather, Igather, in, n, MPI_CHAR, out, n, MPI_CHAR, 0, w); break;
    case SCATTER: CALL(Scatter, Iscatter, in, n, MPI_CHAR, out, n, MPI_CHAR, 0, w); break;
    case ALLGATHER: CALL(Allgather, Iallgather, in, n, MPI_CHAR, out, n, MPI_CHAR, w); break;
    case ALLTOALL: CALL(Alltoall, Ialltoall, in, n, MPI_CHAR, out, n, MPI_CHAR, w); break;
    case NEIGHBOR_ALLGATHER: CALL(Neighbor_allgather, Ineighbor_allgather, in, n, MPI_CHAR, out, n, MPI_CHAR, grid); break;
    case NEIGHBOR_ALLTOALL: CALL(Neighbor_alltoall, Ineighbor_alltoall, in, n, MPI_CHAR, out, n, MPI_CHAR, grid); break;
    case OPERATIONS: break;
    }
}

/* Blocks of this rank's input and output. The root of a broadcast brings its output. */
static void set_blocks(struct together *t) {
    int in = 1, out = 1;
    switch (t->operation) {
    case BARRIER: in = out = 0; break;
    case BCAST: in = !me; break;
    case REDUCE: out = !me; break;
    case EXSCAN: out = me > 0; break;
    case REDUCE_SCATTER: in = np; break;
    case GATHER: out = me ? 0 : np; break;
    case SCATTER: in = me ? 0 : np; break;
    case ALLGATHER: out = np; break;
    case ALLTOALL: in = out = np; break;
    case NEIGHBOR_ALLGATHER: out = neighbours; break;
    case NEIGHBOR_ALLTOALL: in = out = neighbours; break;
    default: break;
    }
    t->brought = (long)in * t->count, t->got = (long)out * t->count;
}

/* Whose elements an element of the output is made of, and where these have it. */
static void origin(const struct together *t, long element, int *first, int *end, long *place) {
    long own_block = (long)me * t->count;
    int from = (int)(element / t->count);
    *first = 0, *end = np, *place = element;
    switch (t->operation) {
    case BCAST: *end = 1; break;
    case REDUCE_SCATTER: *place = own_block + element; break;
    case SCAN: *end = me + 1; break;
    case EXSCAN: *end = me; break;
    case SCATTER: *end = 1, *place = own_block + element; break;
    case GATHER: case ALLGATHER: *first = from, *end = from + 1, *place = element % t->count; break;
    case ALLTOALL: *first = from, *end = from + 1, *place = own_block + element % t->count; break;
    case NEIGHBOR_ALLGATHER: case NEIGHBOR_ALLTOALL: *first = around[from], *end = *first + 1, *place = element % t->count; break;
    default: break;
    }
}

/* The place after this one: the next, or the next at an edge of a block, which is its first and its last. */
static long place_after(const struct together *t, long place, int edges) {
    return edges && place % t->count == 0 && t->count > 1 ? place + t->count - 1 : place + 1;
}

/* Where the element is that this one is alike. All neighbours get the same, for where both of a dimension are one rank libraries differ in
   which block is whose. */
static long like(const struct together *t, long place) { return t->operation == NEIGHBOR_ALLTOALL ? place % t->count : place; }

static void bring(struct together *t, int edges) {
    char *bytes = t->operation == BCAST ? t->out : t->in;
    double *numbers = (double *)t->in;
    if (t->adds) for (long i = 0; i < t->brought; i = place_after(t, i, edges)) numbers[i] = value(me, i, t->round);
    else if (touch) memset(bytes, (int)value(me, 0, t->round), t->brought);
    else for (long i = 0; i < t->brought; i = place_after(t, i, edges)) bytes[i] = (char)value(me, like(t, i), t->round);
}

static void rounds_together(void *what, long rounds) {
    struct together *t = what;
    for (; rounds; rounds--) {
        t->round++;
        if (touch) bring(t, 0);
        if (t->form == 'p') MPI_Start(&t->request); else call(t);
        if (t->form != 'b') MPI_Wait(&t->request, MPI_STATUS_IGNORE);
    }
}

static void spoil_result(void *what) {
    struct together *t = what;
    int is_source = t->operation == BCAST && !me;
    if (!is_source) memset(t->out, SPOILT, t->got * (t->adds ? sizeof(double) : 1));
}

static void check_result(const struct together *t, int edges) {
    const double *numbers = (const double *)t->out;
    for (long i = 0; i < t->got; i = place_after(t, i, edges)) {
        int first, end;
        long place;
        unsigned expected = 0;
        origin(t, i, &first, &end, &place);
        for (int rank = first; rank < end; rank++) expected += value(rank, place, t->round);
        if (t->adds ? numbers[i] != expected : t->out[i] != (char)expected) wrong_at("element", i);
    }
}

static void together_set_up(struct together *t, enum operation operation, char form, long bytes) {
    *t = (struct together){ .operation = operation, .form = form, .request = MPI_REQUEST_NULL };
    t->adds = operation == REDUCE || operation == ALLREDUCE || operation == REDUCE_SCATTER || operation == SCAN || operation == EXSCAN;
    t->count = (int)(t->adds ? (bytes + 7) / 8 : bytes);
    t->in = memory((bytes + 8) * np), t->out = memory((bytes + 8) * np);
    if (operation == NEIGHBOR_ALLGATHER || operation == NEIGHBOR_ALLTOALL) set_up_grid();
    set_blocks(t);
    bring(t, 0);
    if (form == 'p') call(t);
}

static void together_tear_down(struct together *t) {
    if (t->form == 'p') MPI_Request_free(&t->request);
    if (grid != MPI_COMM_NULL) MPI_Comm_free(&grid);
    free(t->in), free(t->out);
}

static void together(enum operation operation, char form, long bytes, double batch_s) {
    struct together t;
    together_set_up(&t, operation, form, bytes);
    struct contest c = { &t, rounds_together, spoil_result, microseconds };
    time_rounds(&c, bytes, batch_s);
    check_result(&t, 0);
    together_tear_down(&t);
}

/* The operation of that name; if there is none, OPERATIONS. */
static enum operation operation_called(const char *name) {
    int operation = 0;
    while (operation < OPERATIONS && strcmp(name, NAMES[operation])) operation++;
    return (enum operation)operation;
}

#include "shares.h"
#include "calls.h"

static void sort_rounds(void *what, long rounds) { while (rounds--) sort_round(what); }
static void gradients_rounds(void *what, long rounds) { while (rounds--) gradients_round(what); }

static void sort(long bytes, double batch_s) {
    struct sort s;
    struct contest c = { &s, sort_rounds, NULL, microseconds };
    sort_set_up(&s, bytes);
    time_rounds(&c, bytes, batch_s);
    sort_check(&s), sort_tear_down(&s);
}

static void gradients(long bytes, double batch_s) {
    struct gradients g;
    struct contest c = { &g, gradients_rounds, NULL, microseconds };
    gradients_set_up(&g, bytes);
    time_rounds(&c, bytes, batch_s);
    gradients_check(&g), gradients_tear_down(&g);
}

static void run(const char *kind, char form, long bytes, double batch_s) {
    enum operation operation = operation_called(kind);
    if (operation < OPERATIONS) together(operation, form, bytes, batch_s);
    else if (!strncmp(kind, "overlap", 7) || !strcmp(kind, "asynchrony") || !strcmp(kind, "persistence")) shares(kind, form, bytes, batch_s);
    else if (!strcmp(kind, "overhead")) overhead(bytes, batch_s);
    else if (!strcmp(kind, "is")) sort(bytes, batch_s);
    else if (!strcmp(kind, "cg")) gradients(bytes, batch_s);
    else messages(kind, form, bytes, batch_s);
}

int main(int argc, char **argv) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me), MPI_Comm_size(MPI_COMM_WORLD, &np);
    if (argc < 6) MPI_Abort(MPI_COMM_WORLD, 2);
    persistent = !strcmp(argv[2], "persistent"), touch = atoi(argv[3]);
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
    if (!me) printf("version %s\n", version);
    for (int i = 5; i < argc; i++) run(argv[1], argv[2][0], atol(argv[i]), atof(argv[4]));
    MPI_Finalize();
    return 0;
}
