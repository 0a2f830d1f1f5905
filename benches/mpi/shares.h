/* What part of communication needs no waiting, or no repeating: the procedures of benches/src/hiding.rs (overlap), asynchrony.rs and
 * set_up.rs with ping_pong.rs (persistence) over MPI, part by part. What they do and why is said there. */

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <time.h>

enum { AGREE = 100, MEET = 102, GO = 103, TELL = 104, EXCHANGE = 3, DECISIONS = 3, PARTS = 5, STAMP_BYTES = 8 };
enum { ARRAY = 1024, TRIAL = 20000, TRIALS = 9, WARMUP = 5, ROUNDS_MIN = 3, ROUNDS_MAX = 3000 };
enum { TRIPS_WARMUP = 50, TRIPS_MIN = 10, TRIPS_MAX = 1000000 };
enum { SET_UPS = 500, SET_UPS_MIN = 4, SET_UP_BYTES = 16 << 20, SET_UP_WARMUP = 2, SET_UP_ROUNDS_MAX = 100000 };

static const double LONGER = 1.1, HIDING_BATCH_S = 20e-3, HIDING_ROUND_S_MIN = 100e-6;
static const double ASYNCHRONY_LONGER = 10, COMPUTATION_MIN_S = 500e-6, ASYNCHRONY_BATCH_S = 10e-3, AHEAD_S = 20e-6, READY_AFTER_S = 2e-6;
static const double TRIPS_BATCH_S = 10e-6;

/* The clock that all processes of a machine share. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Figures that become one. */
struct samples { double *of; long count, room; };

static void add(struct samples *s, double sample) {
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->of = realloc(s->of, s->room * sizeof *s->of);
        if (!s->of) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    s->of[s->count++] = sample;
}

/* Half of them are not larger. There are none afterwards. */
static double median(struct samples *s) {
    qsort(s->of, s->count, sizeof *s->of, compare);
    double middle = s->of[(s->count + 1) / 2 - 1];
    free(s->of);
    *s = (struct samples){ 0 };
    return middle;
}

static long at_least(long least, double count) { return count < (double)least ? least : (long)count; }
static long at_most(long most, long count) { return count > most ? most : count; }

/* What a rank does instead of waiting: arithmetic on an array of its own, or sleep. */
static int sleeps;
static volatile double array[ARRAY];

static void work(uint64_t amount) {
    if (sleeps && amount) {
        struct timespec left = { (time_t)(amount / 1000000000), (long)(amount % 1000000000) };
        while (nanosleep(&left, &left) && errno == EINTR) {}
        return;
    }
    for (uint64_t round = 0; round < amount; round++) array[round % ARRAY] = array[round % ARRAY] * 0.999 + 1e-9;
}

static void choose_work(int is_sleep) {
    sleeps = is_sleep;
    if (sleeps) prctl(PR_SET_TIMERSLACK, 1);
    for (int i = 0; i < ARRAY; i++) array[i] = 1.0;
}

/* The amount that takes so long if nothing disturbs it. */
static uint64_t amount_of(double seconds) {
    if (sleeps) return (uint64_t)(seconds * 1e9);
    struct samples times = { 0 };
    for (int i = 0; i < TRIALS; i++) {
        double begin = now();
        work(TRIAL);
        add(&times, now() - begin);
    }
    return (uint64_t)at_least(1, seconds / median(&times) * TRIAL);
}

/* Data that shows which message it is of: a number, and behind it a pattern grown from a seed. */
static uint64_t word(uint64_t seed, long index) { return (seed + (uint64_t)index) * 0x9e3779b97f4a7c15u; }

static void stamp(char *message, long bytes, uint64_t number) {
    memcpy(message, &number, bytes < STAMP_BYTES ? bytes : STAMP_BYTES);
}

static int has_stamp(const char *message, long bytes, uint64_t number) {
    return !memcmp(message, &number, bytes < STAMP_BYTES ? bytes : STAMP_BYTES);
}

static void fill(char *message, long bytes, uint64_t seed) {
    long at = STAMP_BYTES;
    uint64_t expected;
    for (; at + 8 <= bytes; at += 8) expected = word(seed, at / 8), memcpy(message + at, &expected, 8);
    if (at < bytes) expected = word(seed, at / 8), memcpy(message + at, &expected, bytes - at);
}

static void check_filled(const char *message, long bytes, uint64_t seed) {
    long at = STAMP_BYTES;
    uint64_t expected;
    for (; at + 8 <= bytes; at += 8) {
        expected = word(seed, at / 8);
        if (memcmp(message + at, &expected, 8)) wrong_at("byte", at);
    }
    expected = word(seed, at / 8);
    if (at < bytes && memcmp(message + at, &expected, bytes - at)) wrong_at("byte", at);
}

/* The first and the last rank, which exchange messages, or all of them. Rank 0 keeps the time. */
static int partner(void) { return me ? 0 : np - 1; }

static void meet_partner(void) {
    char there = 0, here = 0;
    MPI_Sendrecv(&here, 1, MPI_CHAR, partner(), MEET, &there, 1, MPI_CHAR, partner(), MEET, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Both leave at the same moment, which it returns. */
static double begin_together(void) {
    meet_partner();
    double moment = now() + AHEAD_S;
    if (!me) MPI_Send(&moment, 1, MPI_DOUBLE, partner(), AGREE, MPI_COMM_WORLD);
    else MPI_Recv(&moment, 1, MPI_DOUBLE, partner(), AGREE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (now() < moment) {}
    return moment;
}

static void go(void) {
    char go = 0;
    MPI_Send(&go, 1, MPI_CHAR, partner(), GO, MPI_COMM_WORLD);
}

static void await_go(void) {
    char go = 0;
    MPI_Recv(&go, 1, MPI_CHAR, partner(), GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* One message, or one each way, that can be started, left alone and waited for; or a collective. */
enum way { SEND, RECV, BOTH, ALL };

struct transfer {
    enum way way; /* seen from rank 0 */
    int sends, recvs;
    long bytes;
    uint64_t number;
    char *out, *in;
    MPI_Request send, recv;
    int is_armed; /* of a ping-pong: whether the receive was started */
    struct together *together;
};

static void exchange_set_up(struct transfer *t, enum way way, long bytes) {
    *t = (struct transfer){ .way = way, .bytes = bytes, .send = MPI_REQUEST_NULL, .recv = MPI_REQUEST_NULL };
    t->sends = way == BOTH || (way == SEND) == !me, t->recvs = way == BOTH || (way == RECV) == !me;
    t->out = memory(bytes), t->in = memory(bytes);
    if (persistent && t->sends) MPI_Send_init(t->out, bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &t->send);
    if (persistent && t->recvs) MPI_Recv_init(t->in, bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &t->recv);
}

static void exchange_tear_down(struct transfer *t) {
    if (persistent && t->sends) MPI_Request_free(&t->send);
    if (persistent && t->recvs) MPI_Request_free(&t->recv);
    free(t->out), free(t->in);
}

/* New data, before anything is started. */
static void exchange_prepare(struct transfer *t) {
    t->number++;
    if (!t->sends) return;
    stamp(t->out, t->bytes, t->number);
    fill(t->out, t->bytes, 2 * t->number + !me);
}

static void exchange_verify(const struct transfer *t) {
    if (!t->recvs) return;
    if (!has_stamp(t->in, t->bytes, t->number)) wrong_at("byte", 0);
    check_filled(t->in, t->bytes, 2 * t->number + !!me);
}

static void start_recv(struct transfer *t) {
    if (!t->recvs) return;
    if (persistent) MPI_Start(&t->recv);
    else MPI_Irecv(t->in, t->bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &t->recv);
}

static void start_send(struct transfer *t) {
    if (!t->sends) return;
    if (persistent) MPI_Start(&t->send);
    else MPI_Isend(t->out, t->bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &t->send);
}

static void exchange_wait(struct transfer *t) {
    if (t->recvs) MPI_Wait(&t->recv, MPI_STATUS_IGNORE);
    if (t->sends) MPI_Wait(&t->send, MPI_STATUS_IGNORE);
}

struct span { double begin, end; };

/* Returns the moment, if it is one. */
static double meet(const struct transfer *t) {
    if (t->way == RECV) return begin_together();
    if (t->way == ALL) MPI_Barrier(MPI_COMM_WORLD);
    else meet_partner();
    return 0;
}

/* Has rank 0's decision told to who takes part. */
static void agree(const struct transfer *t, uint64_t decision[DECISIONS]) {
    if (t->way == ALL) MPI_Bcast(decision, DECISIONS, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    else if (!me) MPI_Send(decision, DECISIONS, MPI_UINT64_T, partner(), AGREE, MPI_COMM_WORLD);
    else MPI_Recv(decision, DECISIONS, MPI_UINT64_T, partner(), AGREE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int computes(const struct transfer *t) { return !me || t->way == BOTH || t->way == ALL; }

static struct span transfer_together(struct together *t, uint64_t amount, int edges) {
    struct span span;
    t->round++;
    bring(t, edges);
    MPI_Barrier(MPI_COMM_WORLD);
    span.begin = now();
    if (t->form == 'p') MPI_Start(&t->request); else call(t);
    work(amount);
    MPI_Wait(&t->request, MPI_STATUS_IGNORE);
    span.end = now();
    check_result(t, edges);
    return span;
}

/* The whole transfer, with this much computation between start and wait. */
static struct span transfer(struct transfer *t, uint64_t amount) {
    struct span span = { 0 };
    if (t->way == ALL) return transfer_together(t->together, amount, 1);
    exchange_prepare(t);
    double moment = meet(t);
    /* Who does not keep the time is ready to receive, or sends when the other one is. */
    if (t->way == SEND && me) start_recv(t), go();
    if (t->way == SEND && !me) await_go();
    if (t->way == RECV && me) while (now() < moment + READY_AFTER_S) {}
    span.begin = now();
    if (t->way != SEND) start_recv(t);
    start_send(t);
    if (computes(t)) work(amount);
    exchange_wait(t);
    span.end = now();
    exchange_verify(t);
    return span;
}

/* The second of two that are alike. */
static struct span transfer_repeated(struct transfer *t, uint64_t amount) {
    transfer(t, amount);
    return transfer(t, amount);
}

/* Computation alone. */
static struct span compute(const struct transfer *t, uint64_t amount) {
    struct span span;
    meet(t);
    span.begin = now();
    if (computes(t)) work(amount);
    span.end = now();
    return span;
}

/* The mean of both ranks' times, for rank 0. */
static void mean_of_both(const struct span *spans, long count, double *took) {
    double *others = zeros(count, sizeof *others);
    for (long i = 0; i < count; i++) took[i] = spans[i].end - spans[i].begin;
    if (me) MPI_Send(took, (int)count, MPI_DOUBLE, partner(), TELL, MPI_COMM_WORLD);
    else MPI_Recv(others, (int)count, MPI_DOUBLE, partner(), TELL, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (long i = 0; i < count && !me; i++) took[i] = (took[i] + others[i]) / 2;
    free(others);
}

/* How long each took, for rank 0: its own time, or the mean of both, or from when the first rank began until the last one was done. */
static void that_count(const struct transfer *t, const struct span *spans, long count, double *took) {
    if (t->way == BOTH) {
        mean_of_both(spans, count, took);
        return;
    }
    for (long i = 0; i < count; i++) {
        struct span whole = spans[i];
        if (t->way == ALL) {
            MPI_Reduce(&spans[i].begin, &whole.begin, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
            MPI_Reduce(&spans[i].end, &whole.end, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        }
        took[i] = whole.end - whole.begin;
    }
}

/* Medians of the parts of so many rounds, for rank 0. */
static void hiding_batch(struct transfer *t, uint64_t amount, long rounds, double part[PARTS]) {
    struct span *spans = zeros(rounds * PARTS, sizeof *spans);
    double *took = zeros(rounds * PARTS, sizeof *took);
    for (long r = 0; r < rounds; r++) {
        struct span *round = spans + r * PARTS;
        round[0] = transfer_repeated(t, 0);
        round[1] = compute(t, amount), round[2] = transfer_repeated(t, amount);
        round[3] = compute(t, 2 * amount), round[4] = transfer_repeated(t, 2 * amount);
    }
    that_count(t, spans, rounds * PARTS, took);
    for (int p = 0; p < PARTS; p++) {
        struct samples of_part = { 0 };
        for (long r = 0; r < rounds; r++) add(&of_part, took[r * PARTS + p]);
        part[p] = median(&of_part);
    }
    free(spans), free(took);
}

/* The amount of work that takes longer than communication by as much as it should, if this amount took `t_x`. */
static uint64_t longer(uint64_t amount, double t_x, double t_y) {
    double factor = LONGER * t_y / t_x;
    factor = factor < 0.5 ? 0.5 : factor > 2.0 ? 2.0 : factor;
    return (uint64_t)at_least(1, (double)amount * factor + 0.5);
}

static void show(double figure) { if (!me) printf(" %.9g", figure); }

/* Prints d_o, t_y in microseconds, and the availability. */
static void hide(struct transfer *t, double time_s) {
    struct samples times = { 0 }, d_o = { 0 }, t_y = { 0 }, availability = { 0 };
    double part[PARTS];
    for (int i = 0; i < WARMUP; i++) {
        struct span span = transfer(t, 0);
        add(&times, span.end - span.begin);
    }
    uint64_t decision[DECISIONS] = { 0 };
    double once = median(&times), round_s = once * (2 + 9 * LONGER);
    if (round_s < HIDING_ROUND_S_MIN) round_s = HIDING_ROUND_S_MIN;
    if (!me) {
        long rounds = at_most(ROUNDS_MAX, at_least(ROUNDS_MIN, time_s / round_s));
        decision[0] = amount_of(LONGER * once), decision[1] = rounds;
        decision[2] = at_most(rounds, at_least(ROUNDS_MIN, HIDING_BATCH_S / round_s));
    }
    agree(t, decision);
    long in_batch = (long)decision[2], batches = ((long)decision[1] + in_batch - 1) / in_batch;
    for (long batch = 0; batch <= batches; batch++) {
        hiding_batch(t, decision[0], in_batch, part);
        /* The first one only warms up. */
        if (batch) {
            add(&d_o, (part[1] + part[0] - part[2]) / part[0]);
            add(&t_y, part[0] * 1e6);
            add(&availability, 1 - (part[4] - part[3]) / part[0]);
        }
        if (!me) decision[0] = longer(decision[0], part[1], part[0]);
        agree(t, decision);
    }
    show(median(&d_o)), show(median(&t_y)), show(median(&availability));
}

static void overlap_messages(long bytes, double time_s) {
    if (me && me != np - 1) return;
    for (enum way way = SEND; way <= BOTH; way++)
        for (int is_sleep = 0; is_sleep < 2; is_sleep++) {
            struct transfer t;
            exchange_set_up(&t, way, bytes);
            choose_work(is_sleep);
            hide(&t, time_s);
            exchange_tear_down(&t);
        }
}

static void overlap_collective(enum operation operation, char form, long bytes, double time_s) {
    renews = 1;
    for (int is_sleep = 0; is_sleep < 2; is_sleep++) {
        struct together together;
        struct transfer t = { .way = ALL, .together = &together };
        together_set_up(&together, operation, form, bytes);
        choose_work(is_sleep);
        transfer_together(&together, 0, 0);
        hide(&t, time_s);
        transfer_together(&together, 0, 0);
        together_tear_down(&together);
    }
}

/* Time inside of the library, before and after this much computation. */
static double receive(struct transfer *t, uint64_t amount, double tick) {
    exchange_prepare(t);
    begin_together();
    double begin = now();
    start_recv(t), start_send(t);
    double started = now();
    if (!me) work(amount);
    now(); /* The first reading after a computation comes out of cold caches. */
    double computed = now();
    exchange_wait(t);
    double waited = now(), start_s = started - begin - tick, wait_s = waited - computed - tick;
    exchange_verify(t);
    return (start_s < 1e-9 ? 1e-9 : start_s) + (wait_s < 1e-9 ? 1e-9 : wait_s);
}

/* The second of two receives that are alike. */
static double receive_repeated(struct transfer *t, uint64_t amount, double tick) {
    receive(t, amount, tick);
    return receive(t, amount, tick);
}

/* Prints d_a, t_comm and t_async, both in microseconds. */
static void receive_beside_work(struct transfer *t, double time_s) {
    struct samples ticks = { 0 }, times = { 0 }, d_a = { 0 }, t_comm = { 0 }, t_async = { 0 };
    for (int i = 0; i < 101; i++) {
        double begin = now();
        add(&ticks, now() - begin);
    }
    double tick = median(&ticks);
    for (int i = 0; i < WARMUP; i++) add(&times, receive(t, 0, tick));
    uint64_t decision[DECISIONS] = { 0 };
    if (!me) {
        double once = median(&times), work_s = ASYNCHRONY_LONGER * once;
        if (work_s < COMPUTATION_MIN_S) work_s = COMPUTATION_MIN_S;
        long rounds = at_most(ROUNDS_MAX, at_least(ROUNDS_MIN, time_s / (once + work_s)));
        decision[0] = amount_of(work_s), decision[1] = rounds;
        decision[2] = at_most(rounds, at_least(ROUNDS_MIN, ASYNCHRONY_BATCH_S / (once + work_s)));
    }
    agree(t, decision);
    long in_batch = (long)decision[2], batches = ((long)decision[1] + in_batch - 1) / in_batch;
    for (long batch = 0; batch < batches; batch++) {
        struct samples alone = { 0 }, with = { 0 };
        for (long r = 0; r < in_batch; r++) {
            add(&alone, receive_repeated(t, 0, tick));
            add(&with, receive_repeated(t, decision[0], tick));
        }
        double alone_s = median(&alone), with_s = median(&with);
        add(&d_a, 1 - with_s / alone_s), add(&t_comm, alone_s * 1e6), add(&t_async, with_s * 1e6);
    }
    show(median(&d_a)), show(median(&t_comm)), show(median(&t_async));
}

static void asynchrony(long bytes, double time_s) {
    if (me && me != np - 1) return;
    for (int is_sleep = 0; is_sleep < 2; is_sleep++) {
        struct transfer t;
        exchange_set_up(&t, RECV, bytes);
        choose_work(is_sleep);
        receive_beside_work(&t, time_s);
        exchange_tear_down(&t);
    }
}

/* Registers and frees `count` pairs of a send and a receive, of which the other rank has the counterparts. What one takes, in
   nanoseconds, for rank 0. */
static double set_up_round(char *buffers, long bytes, int count) {
    MPI_Request *requests = zeros(2 * (long)count, sizeof *requests);
    double took = 0;
    char *out = buffers, *in = buffers + bytes;
    if (!me) {
        meet_partner();
        double begin = now();
        for (int i = 0; i < count; i++) {
            MPI_Send_init(out, bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &requests[0]);
            MPI_Recv_init(in, bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &requests[1]);
            MPI_Request_free(&requests[0]), MPI_Request_free(&requests[1]);
        }
        took = now() - begin;
        meet_partner();
    } else {
        for (int i = 0; i < count; i++, out += 2 * bytes, in += 2 * bytes) {
            MPI_Send_init(out, bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &requests[2 * i]);
            MPI_Recv_init(in, bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, &requests[2 * i + 1]);
        }
        meet_partner(), meet_partner();
        for (int i = 0; i < 2 * count; i++) MPI_Request_free(&requests[i]);
    }
    free(requests);
    return took * 1e9 / (2 * count);
}

static double set_up_ns(long bytes, double time_s) {
    struct samples figures = { 0 };
    struct transfer pair = { .way = BOTH };
    uint64_t decision[DECISIONS] = { 0 };
    int count = (int)at_most(SET_UPS, at_least(SET_UPS_MIN, (double)SET_UP_BYTES / (double)bytes));
    char *buffers = memory(2 * bytes * (me ? count : 1));
    double begin = now();
    for (int i = 0; i < SET_UP_WARMUP; i++) set_up_round(buffers, bytes, count);
    double round_s = (now() - begin) / SET_UP_WARMUP;
    decision[0] = at_most(SET_UP_ROUNDS_MAX, at_least(ROUNDS_MIN, time_s / round_s));
    agree(&pair, decision);
    for (uint64_t i = 0; i < decision[0]; i++) add(&figures, set_up_round(buffers, bytes, count));
    free(buffers);
    return median(&figures);
}

/* Says that a message may come, if that can be said and has not been. */
static void arm(struct transfer *t) {
    if (persistent && !t->is_armed) MPI_Start(&t->recv), t->is_armed = 1;
}

static void trip_send(struct transfer *t) {
    if (persistent) MPI_Wait(&t->send, MPI_STATUS_IGNORE);
    stamp(t->out, t->bytes, t->number);
    if (persistent) MPI_Start(&t->send);
    else MPI_Send(t->out, t->bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD);
}

static void trip_recv(struct transfer *t) {
    if (persistent) MPI_Wait(&t->recv, MPI_STATUS_IGNORE), t->is_armed = 0;
    else MPI_Recv(t->in, t->bytes, MPI_CHAR, partner(), EXCHANGE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!has_stamp(t->in, t->bytes, t->number)) wrong_at("byte", 0);
}

/* A round trip that finds out that the other side is ready as well, and so many that count, of messages that are bound, or of blocking calls;
   how long those took. */
static double trips(struct transfer *t, long count) {
    double begin = now();
    for (long left = count; left >= 0; left--) {
        t->number++;
        arm(t);
        if (!me) {
            trip_send(t), trip_recv(t);
        } else {
            trip_recv(t);
            /* Before the answer, which invites the next message. */
            if (left) arm(t);
            trip_send(t);
        }
        if (left == count) begin = now();
    }
    return now() - begin;
}

static double trips_with_new_data(struct transfer *t, long count) {
    uint64_t seed = t->number;
    if (persistent) MPI_Wait(&t->send, MPI_STATUS_IGNORE);
    fill(t->out, t->bytes, seed ^ !me);
    double took = trips(t, count);
    check_filled(t->in, t->bytes, seed ^ !!me);
    return took;
}

/* Half a round trip in seconds. */
static double half_round_trip(int is_bound, long bytes, double time_s) {
    struct samples figures = { 0 };
    struct transfer t;
    uint64_t decision[DECISIONS] = { 0 };
    persistent = is_bound;
    exchange_set_up(&t, BOTH, bytes);
    double trip_s = trips_with_new_data(&t, TRIPS_WARMUP) / TRIPS_WARMUP;
    long all = at_most(TRIPS_MAX, at_least(TRIPS_MIN, time_s / trip_s)), in_batch = at_least(1, TRIPS_BATCH_S / trip_s + 1);
    decision[0] = in_batch = at_most(all, in_batch), decision[1] = (all + in_batch - 1) / in_batch;
    agree(&t, decision);
    in_batch = (long)decision[0];
    for (uint64_t i = 0; i < decision[1]; i++) add(&figures, trips_with_new_data(&t, in_batch) / 2 / in_batch);
    if (persistent) MPI_Wait(&t.send, MPI_STATUS_IGNORE);
    exchange_tear_down(&t);
    return median(&figures);
}

/* Prints d_p; o, o_s and o_i in nanoseconds; and what binding saves of a message's time. */
static void persistence(long bytes, double time_s) {
    if (me && me != np - 1) return;
    double o_s = set_up_ns(bytes, time_s), o_i = half_round_trip(1, 0, time_s) * 1e9;
    double bound = half_round_trip(1, bytes, time_s), loose = half_round_trip(0, bytes, time_s);
    show(o_s / (o_s + o_i)), show(o_s + o_i), show(o_s), show(o_i), show(1 - bound / loose);
}

/* A line of all figures of a size. */
static void shares(const char *kind, char form, long bytes, double batch_s) {
    const char *of = strchr(kind, ':');
    double time_s = BATCHES_OF_BENCHMARKS * batch_s;
    if (!me) printf("%ld", bytes);
    if (!strcmp(kind, "asynchrony")) asynchrony(bytes, time_s);
    else if (!strcmp(kind, "persistence")) persistence(bytes, time_s);
    else if (of) overlap_collective(operation_called(of + 1), form, bytes, time_s);
    else overlap_messages(bytes, time_s);
    if (!me) printf("\n"), fflush(stdout);
}
