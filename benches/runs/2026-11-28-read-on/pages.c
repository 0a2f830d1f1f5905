/* How long a function takes that was last called a while ago, by how many cache lines and pages it and its data have.
 *
 *   cc -O1 -o pages pages.c && ./pages
 *
 * Its lines jump to each other and add up a word of each line of data. Between two calls the core computes in 8 KiB, and
 * calls the others in turns. x86-64 only. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <x86intrin.h>

enum { KINDS = 6, ROUNDS = 500, ROOM = 65536 };
/* Lines of code, their pages, lines of data, their pages. */
static const int KIND[KINDS][4] = {{1, 1, 1, 1}, {10, 1, 10, 1}, {10, 4, 10, 6}, {19, 1, 20, 1}, {19, 6, 20, 8}, {30, 1, 30, 1}};
static double array[1024], took[KINDS][ROUNDS];

static double now_ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static int by_size(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y); }
static void compute(uint64_t rounds) {
    for (uint64_t i = 0; i < rounds; i++) { volatile double *place = &array[i % 1024]; *place = *place * 0.999 + 1e-9; }
}
static uint64_t tick(void) { unsigned core; _mm_lfence(); uint64_t t = __rdtscp(&core); _mm_lfence(); return t; }

/* Where a line begins: in turns on each of the pages. */
static int place(int line, int pages) { return line % pages * 4096 + line / pages * 64 + line % pages * 320; }

static void write_function(unsigned char *code, const int *kind) {
    for (int line = 0; line < kind[0]; line++) {
        unsigned char *at = code + place(line, kind[1]);
        for (int word = line * kind[2] / kind[0]; word < (line + 1) * kind[2] / kind[0]; word++, at += 7) {
            int32_t offset = place(word, kind[3]);
            memcpy(at, "\x48\x03\x87", 3); /* add offset(%rdi), %rax */
            memcpy(at + 3, &offset, 4);
        }
        int32_t jump = place(line + 1, kind[1]) - (int32_t)(at + 5 - code);
        *at = line + 1 < kind[0] ? 0xe9 : 0xc3; /* jmp, ret */
        memcpy(at + 1, &jump, 4);
    }
}

int main(void) {
    cpu_set_t only; CPU_ZERO(&only); CPU_SET(1, &only); sched_setaffinity(0, sizeof only, &only);
    unsigned char *code = mmap(0, KINDS * ROOM, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *data = mmap(0, KINDS * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(code, KINDS * ROOM, MADV_NOHUGEPAGE); madvise(data, KINDS * ROOM, MADV_NOHUGEPAGE);
    memset(data, 0, KINDS * ROOM);
    for (int kind = 0; kind < KINDS; kind++) write_function(code + kind * ROOM, KIND[kind]);
    double begin = now_ns(); uint64_t first = tick();
    compute(4000000);
    double ns = now_ns() - begin, ticks_per_ns = (tick() - first) / ns, round_ns = ns / 4e6;
    const double pauses_us[] = {100, 500};
    for (int which = 0; which < 2; which++) {
        for (int round = 0; round < ROUNDS; round++)
            for (int kind = 0; kind < KINDS; kind++) {
                compute(pauses_us[which] * 1000 / round_ns);
                tick();
                uint64_t t = tick();
                uint64_t sum = ((uint64_t(*)(unsigned char *))(code + kind * ROOM))(data + kind * ROOM);
                took[kind][round] = (tick() - t) / ticks_per_ns;
                array[0] += sum;
            }
        printf("%4.0f us between calls:", KINDS * pauses_us[which]);
        for (int kind = 0; kind < KINDS; kind++) {
            qsort(took[kind], ROUNDS, sizeof(double), by_size);
            printf("  %d/%d %d/%d: %.0f (%.0f-%.0f)", KIND[kind][0], KIND[kind][1], KIND[kind][2], KIND[kind][3],
                   took[kind][ROUNDS / 2], took[kind][ROUNDS / 4], took[kind][ROUNDS * 3 / 4]);
        }
        printf("\n");
    }
}
