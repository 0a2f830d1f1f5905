/* What the calls alone cost that start a message, and the one that finds it has ended: the procedure of benches/src/calls.rs over MPI.
 * What it does and why is said there. Comes after shares.h. */

enum call { START_SEND, START_RECV, WAIT_DONE, CALLS };
enum { CALLS_IN_ROUND = 1000, CALLS_MIN = 4, CALLS_BYTES = 16 << 20, CALLS_WARMUP = 2, CALL_ROUNDS_MAX = 100000 };

/* One rank's end of many messages that go the same way. */
struct ends {
    int is_sender, count;
    long bytes;
    char *buffers;
    MPI_Request *requests;
    uint64_t number; /* of the round's first message */
};

static char *end_buffer(const struct ends *e, int index) { return e->buffers + e->bytes * index; }

static void ends_set_up(struct ends *e, int is_sender, long bytes) {
    int count = (int)at_most(CALLS_IN_ROUND, at_least(CALLS_MIN, (double)CALLS_BYTES / (double)(bytes ? bytes : 1)));
    *e = (struct ends){ .is_sender = is_sender, .count = count, .bytes = bytes };
    e->buffers = memory(bytes * count), e->requests = zeros(count, sizeof *e->requests);
    for (int i = 0; i < count; i++) {
        e->requests[i] = MPI_REQUEST_NULL;
        if (is_sender) fill(end_buffer(e, i), bytes, (uint64_t)i);
        if (!persistent) continue;
        if (is_sender) MPI_Send_init(end_buffer(e, i), bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &e->requests[i]);
        else MPI_Recv_init(end_buffer(e, i), bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &e->requests[i]);
    }
}

static void ends_tear_down(struct ends *e) {
    if (persistent) for (int i = 0; i < e->count; i++) MPI_Request_free(&e->requests[i]);
    free(e->requests), free(e->buffers);
}

/* How long this rank's starts of the messages from `first` to before `end` take, one after the other. */
static double start_each(struct ends *e, int first, int end) {
    double begin = now();
    for (int i = first; i < end; i++)
        if (persistent) MPI_Start(&e->requests[i]);
        else if (e->is_sender) MPI_Isend(end_buffer(e, i), e->bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &e->requests[i]);
        else MPI_Irecv(end_buffer(e, i), e->bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &e->requests[i]);
    return now() - begin;
}

/* How long this rank's waits take, one after the other. */
static double wait_each(struct ends *e) {
    double begin = now();
    for (int i = 0; i < e->count; i++) MPI_Wait(&e->requests[i], MPI_STATUS_IGNORE);
    return now() - begin;
}

static void check_stamps(const struct ends *e) {
    for (int i = 0; i < e->count; i++)
        if (!has_stamp(end_buffer(e, i), e->bytes, e->number + (uint64_t)i)) wrong_at("byte", 0);
}

/* One message of each request; nanoseconds a call on this rank. What waits for somebody is done in between. */
static double calls_round(struct ends *e, enum call call) {
    double start_recv = 0, start_send = 0;
    if (e->is_sender) for (int i = 0; i < e->count; i++) stamp(end_buffer(e, i), e->bytes, e->number + (uint64_t)i);
    meet_partner();
    if (!e->is_sender) start_recv = start_each(e, 0, e->count) / e->count;
    meet_partner();
    if (e->is_sender) start_each(e, 0, 1), start_send = start_each(e, 1, e->count) / (e->count - 1);
    else MPI_Waitall(e->count, e->requests, MPI_STATUSES_IGNORE);
    /* When the receiver has come so far, the sends have ended too. */
    meet_partner();
    double wait_done = e->is_sender ? wait_each(e) / e->count : 0;
    meet_partner();
    if (!e->is_sender) check_stamps(e);
    e->number += (uint64_t)e->count;
    return (call == WAIT_DONE ? wait_done : call == START_RECV ? start_recv : start_send) * 1e9;
}

/* Prints what a call takes, in nanoseconds. */
static void call_by_call(enum call call, long bytes, double time_s) {
    struct samples figures = { 0 };
    struct transfer pair = { .way = BOTH };
    struct ends ends;
    uint64_t decision[DECISIONS] = { 0 };
    ends_set_up(&ends, (call == START_RECV) == !!me, bytes);
    double begin = now();
    for (int i = 0; i < CALLS_WARMUP; i++) calls_round(&ends, call);
    decision[0] = at_most(CALL_ROUNDS_MAX, at_least(ROUNDS_MIN, time_s * CALLS_WARMUP / (now() - begin)));
    agree(&pair, decision);
    for (uint64_t i = 0; i < decision[0]; i++) add(&figures, calls_round(&ends, call));
    if (!ends.is_sender) for (int i = 0; i < ends.count; i++) check_filled(end_buffer(&ends, i), bytes, (uint64_t)i);
    ends_tear_down(&ends);
    show(median(&figures));
}

/* A line of what starts and waits take. */
static void overhead(long bytes, double batch_s) {
    if (me && me != np - 1) return;
    if (!me) printf("%ld", bytes);
    for (enum call call = START_SEND; call < CALLS; call++) call_by_call(call, bytes, BATCHES_OF_BENCHMARKS * batch_s);
    if (!me) printf("\n"), fflush(stdout);
}
