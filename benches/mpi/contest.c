/* The other side of `ropeway bench compare`: the same contests as benches/src/contest.rs, over MPI.
 *
 *   contest KIND FORM TOUCH BATCH_S SIZE...
 *
 *   KIND latency|bandwidth|exchange, or barrier|bcast|allreduce|allgather|alltoall, or is|cg
 *   FORM persistent|nonblocking, or for the collectives blocking, or for is and cg only that          TOUCH 0|1
 *
 * Rank 0 prints "version TEXT", then "SIZE MEDIAN" for each size: microseconds, 10^6 bytes a second, or messages a second.
 * A wrong byte or result ends it with status 1. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 5, WINDOW = 64, WINDOW_BYTES = 64 << 20 };

static int me, np, persistent, touch;

#include "kernels.h"

/* Requests and buffers of one rank. */
struct side {
    int window; /* messages at once */
    int sends, recvs; /* how many of them */
    long bytes;
    char *out, *in;
    int to, from;
    MPI_Request send[WINDOW], recv[WINDOW];
};

static void *memory(long bytes) {
    void *start = NULL;
    if (posix_memalign(&start, 4096, bytes ? bytes : 1) || !start) MPI_Abort(MPI_COMM_WORLD, 1);
    return memset(start, 0, bytes);
}

static void set_up(struct side *s) {
    s->out = memory(s->bytes * s->window), s->in = memory(s->bytes * s->window);
    if (!persistent) return;
    for (int i = 0; i < s->sends; i++)
        MPI_Send_init(s->out + i * s->bytes, s->bytes, MPI_CHAR, s->to, 1, MPI_COMM_WORLD, &s->send[i]);
    for (int i = 0; i < s->recvs; i++)
        MPI_Recv_init(s->in + i * s->bytes, s->bytes, MPI_CHAR, s->from, 1, MPI_COMM_WORLD, &s->recv[i]);
}

static void tear_down(struct side *s) {
    if (persistent) {
        for (int i = 0; i < s->sends; i++) MPI_Request_free(&s->send[i]);
        for (int i = 0; i < s->recvs; i++) MPI_Request_free(&s->recv[i]);
    }
    free(s->out), free(s->in);
}

static void start_recvs(struct side *s) {
    if (persistent) { MPI_Startall(s->recvs, s->recv); return; }
    for (int i = 0; i < s->recvs; i++)
        MPI_Irecv(s->in + i * s->bytes, s->bytes, MPI_CHAR, s->from, 1, MPI_COMM_WORLD, &s->recv[i]);
}

static void start_sends(struct side *s, long round) {
    if (touch) memset(s->out, (int)(round % 251), s->bytes * s->sends);
    if (persistent) { MPI_Startall(s->sends, s->send); return; }
    for (int i = 0; i < s->sends; i++)
        MPI_Isend(s->out + i * s->bytes, s->bytes, MPI_CHAR, s->to, 1, MPI_COMM_WORLD, &s->send[i]);
}

static void wait_sends(struct side *s) { MPI_Waitall(s->sends, s->send, MPI_STATUSES_IGNORE); }
static void wait_recvs(struct side *s) { MPI_Waitall(s->recvs, s->recv, MPI_STATUSES_IGNORE); }

static void latency(struct side *s, long first, long rounds) {
    int leads = me < np / 2;
    for (long r = first; r < first + rounds; r++) {
        start_recvs(s);
        if (leads) start_sends(s, r), wait_sends(s), wait_recvs(s);
        else wait_recvs(s), start_sends(s, r), wait_sends(s);
    }
}

static void bandwidth(struct side *s, long first, long rounds) {
    int leads = me < np / 2, peer = leads ? s->to : s->from;
    char ack = 0;
    for (long r = first; r < first + rounds; r++) {
        if (leads) {
            start_sends(s, r), wait_sends(s);
            MPI_Recv(&ack, 1, MPI_CHAR, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            start_recvs(s), wait_recvs(s);
            MPI_Send(&ack, 1, MPI_CHAR, peer, 2, MPI_COMM_WORLD);
        }
    }
}

static void exchange(struct side *s, long first, long rounds) {
    for (long r = first; r < first + rounds; r++) start_recvs(s), start_sends(s, r), wait_recvs(s), wait_sends(s);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The figure of one batch: seconds of `rounds` rounds, averaged over the ranks. */
static double figure(const char *kind, const struct side *s, double seconds, long rounds) {
    if (!strcmp(kind, "latency")) return seconds / rounds / 2 * 1e6;
    if (!strcmp(kind, "bandwidth")) return (double)s->bytes * s->window * rounds * (np / 2) / seconds / 1e6;
    return (double)np * rounds / seconds;
}

/* Which collective, or 0. */
static char collective(const char *kind) {
    return !strcmp(kind, "barrier") ? 'b' : !strcmp(kind, "bcast") ? 'c' : !strcmp(kind, "allreduce") ? 'r'
         : !strcmp(kind, "allgather") ? 'g' : !strcmp(kind, "alltoall") ? 'a' : 0;
}

/* Starts it: form p(ersistent; only registers), n(onblocking), b(locking). */
static void call(char which, char form, char *in, char *out, long bytes, MPI_Request *request) {
    MPI_Comm w = MPI_COMM_WORLD;
    int n = (int)bytes, d = (int)((bytes + 7) / 8);
#if MPI_VERSION >= 4
    MPI_Info i = MPI_INFO_NULL;
    if (form == 'p') {
        if (which == 'b') MPI_Barrier_init(w, i, request);
        if (which == 'c') MPI_Bcast_init(out, n, MPI_CHAR, 0, w, i, request);
        if (which == 'r') MPI_Allreduce_init(in, out, d, MPI_DOUBLE, MPI_SUM, w, i, request);
        if (which == 'g') MPI_Allgather_init(in, n, MPI_CHAR, out, n, MPI_CHAR, w, i, request);
        if (which == 'a') MPI_Alltoall_init(in, n, MPI_CHAR, out, n, MPI_CHAR, w, i, request);
    }
#endif
    if (form == 'n') {
        if (which == 'b') MPI_Ibarrier(w, request);
        if (which == 'c') MPI_Ibcast(out, n, MPI_CHAR, 0, w, request);
        if (which == 'r') MPI_Iallreduce(in, out, d, MPI_DOUBLE, MPI_SUM, w, request);
        if (which == 'g') MPI_Iallgather(in, n, MPI_CHAR, out, n, MPI_CHAR, w, request);
        if (which == 'a') MPI_Ialltoall(in, n, MPI_CHAR, out, n, MPI_CHAR, w, request);
    }
    if (form == 'b') {
        if (which == 'b') MPI_Barrier(w);
        if (which == 'c') MPI_Bcast(out, n, MPI_CHAR, 0, w);
        if (which == 'r') MPI_Allreduce(in, out, d, MPI_DOUBLE, MPI_SUM, w);
        if (which == 'g') MPI_Allgather(in, n, MPI_CHAR, out, n, MPI_CHAR, w);
        if (which == 'a') MPI_Alltoall(in, n, MPI_CHAR, out, n, MPI_CHAR, w);
    }
}

/* How many rounds fill a batch, found by doing more and more of them: the first ones take longer than others, and a batch of few
   would measure how ranks leave the barrier before it. */
static long rounds_in_batch(void (*do_rounds)(void *, long), void *what, double batch_s) {
    long rounds = 1, factor = 0;
    while (factor != 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        do_rounds(what, rounds);
        double took = MPI_Wtime() - begin;
        factor = 2 * took > batch_s ? 1 : 8 * took < batch_s ? 8 : (long)(batch_s / took);
        MPI_Bcast(&factor, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        rounds *= factor;
    }
    return rounds;
}

/* Does batches of rounds, each for `batch_s` seconds, and prints the microseconds that a round takes. */
static void time_rounds(void (*do_rounds)(void *, long), void *what, long bytes, double batch_s) {
    long rounds = rounds_in_batch(do_rounds, what, batch_s);
    double begin;
    double figures[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        do_rounds(what, rounds);
        double mine = MPI_Wtime() - begin, sum = 0;
        MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        figures[b] = sum / np / rounds * 1e6;
    }
    qsort(figures, BATCHES, sizeof *figures, compare);
    if (!me) printf("%ld %.9g\n", bytes, figures[BATCHES / 2]), fflush(stdout);
}

/* A collective and its arrays. */
struct together {
    char which, form;
    char *in, *out;
    long bytes;
    MPI_Request *request;
};

static void rounds_together(void *what, long rounds) {
    struct together *t = what;
    for (long r = 0; r < rounds; r++) {
        if (touch) memset(t->in, (int)(r % 251), t->bytes);
        if (t->form == 'p') MPI_Start(t->request); else call(t->which, t->form, t->in, t->out, t->bytes, t->request);
        if (t->form != 'b') MPI_Wait(t->request, MPI_STATUS_IGNORE);
    }
}

static void together(char which, char form, long bytes, double batch_s) {
    char *in = memory((bytes + 8) * np), *out = memory((bytes + 8) * np);
    MPI_Request request = MPI_REQUEST_NULL;
#if MPI_VERSION < 4
    if (form == 'p') { if (!me) fprintf(stderr, "it has no persistent collectives\n"); MPI_Abort(MPI_COMM_WORLD, 3); }
#endif
    if (form == 'p') call(which, form, in, out, bytes, &request);
    struct together t = { which, form, in, out, bytes, &request };
    time_rounds(rounds_together, &t, bytes, batch_s);
    if (form == 'p') MPI_Request_free(&request);
    free(in), free(out);
}

static void sort_rounds(void *what, long rounds) { while (rounds--) sort_round(what); }
static void gradients_rounds(void *what, long rounds) { while (rounds--) gradients_round(what); }

static void sort(long bytes, double batch_s) {
    struct sort s;
    sort_set_up(&s, bytes);
    time_rounds(sort_rounds, &s, bytes, batch_s);
    sort_check(&s), sort_tear_down(&s);
}

static void gradients(long bytes, double batch_s) {
    struct gradients g;
    gradients_set_up(&g, bytes);
    time_rounds(gradients_rounds, &g, bytes, batch_s);
    gradients_check(&g), gradients_tear_down(&g);
}

static void run(const char *kind, long bytes, double batch_s) {
    void (*contest)(struct side *, long, long) = !strcmp(kind, "latency") ? latency : !strcmp(kind, "bandwidth") ? bandwidth : exchange;
    int is_window = contest == bandwidth, leads = me < np / 2, half = np / 2;
    struct side s = { .bytes = bytes, .window = 1 };
    if (is_window) s.window = bytes * WINDOW > WINDOW_BYTES ? (int)(WINDOW_BYTES / bytes) : WINDOW;
    if (s.window < 1) s.window = 1;
    s.sends = is_window && !leads ? 0 : s.window, s.recvs = is_window && leads ? 0 : s.window;
    if (contest == exchange) s.to = (me + 1) % np, s.from = (me + np - 1) % np;
    else s.to = s.from = leads ? me + half : me - half;
    set_up(&s);
    long first = 1, rounds = 3;
    MPI_Barrier(MPI_COMM_WORLD);
    contest(&s, first, rounds), first += rounds;
    double begin = MPI_Wtime();
    contest(&s, first, rounds), first += rounds;
    double each = (MPI_Wtime() - begin) / rounds;
    rounds = each > 0 && batch_s / each > 1 ? (long)(batch_s / each) : 1;
    MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    double figures[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        contest(&s, first, rounds), first += rounds;
        double mine = MPI_Wtime() - begin, sum = 0;
        MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        figures[b] = figure(kind, &s, sum / np, rounds);
    }
    char expected = touch ? (char)((first - 1) % 251) : 0;
    for (long i = 0; i < s.bytes * s.recvs; i++)
        if (s.in[i] != expected) fprintf(stderr, "byte %ld is wrong\n", i), MPI_Abort(MPI_COMM_WORLD, 1);
    qsort(figures, BATCHES, sizeof *figures, compare);
    if (!me) printf("%ld %.9g\n", bytes, figures[BATCHES / 2]), fflush(stdout);
    tear_down(&s);
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
    for (int i = 5; i < argc; i++) {
        char which = collective(argv[1]);
        long bytes = atol(argv[i]);
        double batch_s = atof(argv[4]);
        if (which) together(which, argv[2][0], bytes, batch_s);
        else if (!strcmp(argv[1], "is")) sort(bytes, batch_s);
        else if (!strcmp(argv[1], "cg")) gradients(bytes, batch_s);
        else run(argv[1], bytes, batch_s);
    }
    MPI_Finalize();
    return 0;
}
