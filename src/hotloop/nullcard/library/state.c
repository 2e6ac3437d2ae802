/* The card that is stated, the counters, and the ways in which a test reads them. */
#define _GNU_SOURCE
#include "nullcard.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 65536 /* torch registers some 30,000 kernels */

struct totals totals;
uint64_t nullcard_launched, nullcard_waited;
static struct counter *counters[BUCKETS];
static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static __thread int last_error;
static struct card card;
static int card_read, forked;
static pid_t owner; /* the process that uses the card */

static __thread int depth; /* how often this thread has locked */
int null_lock(void) { return pthread_mutex_lock(&mutex), depth++, 0; }
void null_unlock(int *locked) { (void)locked, depth--, pthread_mutex_unlock(&mutex); }

double null_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
void null_sleep(double until) {
    if (until <= null_now()) return;
    struct timespec at = {(time_t)(until / 1e3), (long)((until - 1e3 * (double)(time_t)(until / 1e3)) * 1e6)};
    for (int i = 0; i < depth; i++) pthread_mutex_unlock(&mutex);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL)) continue;
    for (int i = 0; i < depth; i++) pthread_mutex_lock(&mutex);
}

/* A context cannot be used in a forked child: each call fails there (cudaErrorInitializationError). */
static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void in_parent(void) { pthread_mutex_unlock(&mutex); }
static void in_child(void) { /* a recursive mutex knows its thread, which is another one here */
    depth = 0;
    mutex = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    forked = card_read;
}
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, in_parent, in_child);
}
int null_ready(void) { return forked ? INITIALIZATION : (null_card(), SUCCESS); }

static const char *stated(const char *variable) {
    const char *value = getenv(variable);
    if (value && *value) return value;
    fprintf(stderr,
            "nullcard: the variable %s is not set; start this program with the variables that "
            "hotloop.nullcard.counts.environment() returns\n",
            variable);
    abort();
}
static long number(const char *variable) {
    char *end;
    const char *text = stated(variable);
    long value = strtol(text, &end, 10);
    if (!*end && value > 0) return value;
    fprintf(stderr, "nullcard: expected a positive whole number in %s, got \"%s\"\n", variable, text);
    abort();
}

static void read_rates(void) {
    const char *text = getenv("NULLCARD_RATES");
    if (!text || !*text) return;
    double *to[PRECISIONS + 2] = {NULL};
    for (int i = 0; i < PRECISIONS; i++) to[i] = &card.flops[i];
    to[PRECISIONS] = &card.bandwidth, to[PRECISIONS + 1] = &card.bus;
    for (int i = 0; i < PRECISIONS + 2; i++) {
        char *end;
        *to[i] = strtod(text, &end);
        if (end == text || *to[i] <= 0) {
            fprintf(stderr, "nullcard: expected %d positive numbers in NULLCARD_RATES\n", PRECISIONS + 2);
            abort();
        }
        text = *end == ',' ? end + 1 : end;
    }
    card.timed = 1;
}
/* Whether the work from now on takes time, on a card that has rates. */
void nullcard_take_time(int on) {
    LOCKED;
    null_card();
    card.timed = on && card.bandwidth > 0;
}
const struct card *null_card(void) {
    LOCKED;
    if (card_read) return &card;
    snprintf(card.name, sizeof card.name, "%s", stated("NULLCARD_NAME"));
    card.capability = (int)number("NULLCARD_CAPABILITY");
    card.memory = (size_t)number("NULLCARD_MEMORY_MIB") << 20;
    card.shared_block = (size_t)number("NULLCARD_SHARED_BLOCK_KIB") << 10;
    card.shared_sm = (size_t)number("NULLCARD_SHARED_SM_KIB") << 10;
    card.l2 = (size_t)number("NULLCARD_L2_KIB") << 10;
    card.copy_limit = (size_t)number("NULLCARD_COPY_MIB") << 20;
    card.sms = (int)number("NULLCARD_SM_COUNT");
    card.warp = (int)number("NULLCARD_WARP_SIZE");
    card.clock_khz = (int)number("NULLCARD_CLOCK_MHZ") * 1000;
    card.threads_sm = (int)number("NULLCARD_THREADS_SM");
    card.blocks_sm = (int)number("NULLCARD_BLOCKS_SM");
    read_rates();
    card_read = 1, owner = getpid();
    return &card;
}

/* API, cudaGetLastError: the last error of this host thread; reading it resets it, peeking does not.
 * No error here is "sticky": those come from kernels (an illegal address), and no kernel runs. */
int null_fail(int status) {
    if (status) last_error = status;
    return status;
}
int null_take_error(int keep) {
    int status = last_error;
    if (!keep) last_error = SUCCESS;
    return status;
}

struct counter *null_counter(enum kind kind, const char *name) {
    LOCKED;
    unsigned hash = 5381 + kind;
    for (const char *c = name; *c; c++) hash = hash * 33 + (unsigned char)*c;
    struct counter **slot = &counters[hash % BUCKETS];
    for (struct counter *found = *slot; found; found = found->next)
        if (found->kind == kind && !strcmp(found->name, name)) return found;
    struct counter *made = calloc(1, sizeof *made);
    *made = (struct counter){.name = strdup(name), .kind = kind, .next = *slot};
    return *slot = made;
}

/* ---- JSON ---- */

struct text {
    char *at;
    size_t used, size;
};
static void put(struct text *text, const char *format, ...) {
    for (;;) {
        va_list words;
        va_start(words, format);
        int more = vsnprintf(text->at + text->used, text->size - text->used, format, words);
        va_end(words);
        if (text->used + (size_t)more < text->size) {
            text->used += (size_t)more;
            return;
        }
        text->size = 2 * (text->used + (size_t)more + 1);
        text->at = realloc(text->at, text->size);
    }
}
static void put_name(struct text *text, const char *name) {
    put(text, "\"");
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') put(text, "\\");
        put(text, (unsigned char)*name < ' ' ? " " : "%c", *name);
    }
    put(text, "\"");
}

/* libstdc++ comes with torch, out of sight of RTLD_DEFAULT; without it the names stay mangled. */
typedef char *demangler(const char *name, char *buffer, size_t *length, int *status);
static demangler *find_demangler(void) {
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return library ? (demangler *)dlsym(library, "__cxa_demangle") : NULL;
}
static void put_counters(struct text *text, const char *key, enum kind kind, int replayed) {
    demangler *demangle = find_demangler();
    put(text, ",\n\"%s\": [", key);
    const char *comma = "";
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        for (struct counter *one = counters[bucket]; one; one = one->next) {
            uint64_t count = replayed ? one->replayed : one->launched;
            if (one->kind != kind || !count) continue;
            int status = -1;
            char *plain = demangle ? demangle(one->name, NULL, NULL, &status) : NULL;
            put(text, "%s\n[", comma);
            put_name(text, plain && !status ? plain : one->name);
            put(text, ", %lu]", count);
            free(plain);
            comma = ",";
        }
    put(text, "]");
}
static void put_volumes(struct text *text) {
    static const char *names[] = {"h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable", "d2d", "h2h"};
    put(text, ",\n\"copies\": {");
    for (int kind = 0; kind < COPIES; kind++)
        put(text, "%s\"%s\": [%lu, %lu]", kind ? ", " : "", names[kind], totals.copies[kind].calls,
            totals.copies[kind].bytes);
    put(text, ", \"memset\": [%lu, %lu]}", totals.memsets.calls, totals.memsets.bytes);
}
static void put_all(struct text *text) {
    const struct totals *t = &totals;
    put(text, "{\"schema\": 1, \"card\": ");
    put_name(text, card.name);
    put(text, ",\n\"memory\": {\"limit\": %zu, \"reserved\": %lu, \"peak\": %lu, ", card.memory, t->reserved,
        t->peak);
    put(text, "\"mallocs\": %lu, \"frees\": %lu, \"refused\": %lu, ", t->mallocs, t->frees, t->refused);
    put(text, "\"pinned_allocations\": %lu, \"pinned\": %lu, \"pinned_peak\": %lu}", t->pinned.calls,
        t->pinned.bytes, t->pinned_peak);
    put(text, ",\n\"streams\": {\"events_recorded\": %lu, \"event_waits\": %lu, ", t->events_recorded,
        t->event_waits);
    put(text, "\"queries\": %lu, \"host_functions\": %lu}", t->queries, t->host_functions);
    put(text, ",\n\"graphs\": {\"captures\": %lu, \"captures_failed\": %lu, ", t->captures, t->captures_failed);
    put(text, "\"instantiated\": %lu, \"launched\": %lu}", t->instantiated, t->graph_launches);
    put_volumes(text);
    put_counters(text, "kernels", KERNEL, 0);
    put_counters(text, "gemms", GEMM, 0);
    put_counters(text, "blas", BLAS, 0);
    put_counters(text, "waits", WAIT, 0);
    put_counters(text, "idle_waits", WAIT, 1);
    put_counters(text, "replayed_kernels", KERNEL, 1);
    put_counters(text, "replayed_gemms", GEMM, 1);
    put_counters(text, "replayed_blas", BLAS, 1);
    put(text, "}\n");
}

/* ---- what is called through ctypes ---- */

/* Writes the counts as JSON, as far as they fit, with a zero at the end; returns the bytes needed. */
size_t nullcard_counts(char *buffer, size_t size) {
    LOCKED;
    struct text text = {malloc(1), 0, 1};
    put_all(&text);
    if (size) snprintf(buffer, size, "%s", text.at);
    free(text.at);
    return text.used + 1;
}

/* Sets all counts to zero; what is reserved stays so, and is the new peak. */
void nullcard_reset(void) {
    LOCKED;
    totals = (struct totals){.reserved = totals.reserved, .peak = totals.reserved,
                             .pinned = {0, totals.pinned.bytes}, .pinned_peak = totals.pinned.bytes};
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        for (struct counter *one = counters[bucket]; one; one = one->next) one->launched = one->replayed = 0;
}

/* ---- at the end of the process ---- */

/* The file of NULLCARD_COUNTS, %p in its name being this process. One that used no card writes none. */
static void dump(void) {
    const char *pattern = getenv("NULLCARD_COUNTS");
    if (!pattern || !card_read || getpid() != owner) return; /* also after a vfork */
    char path[4096], *mark;
    snprintf(path, sizeof path - 16, "%s", pattern);
    if ((mark = strstr(path, "%p"))) {
        char rest[4096];
        snprintf(rest, sizeof rest, "%s", mark + 2);
        snprintf(mark, sizeof path - (size_t)(mark - path), "%d%s", getpid(), rest);
    }
    struct text text = {malloc(1), 0, 1};
    LOCKED;
    put_all(&text);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(text.at, 1, text.used, file) != text.used || fclose(file))
        fprintf(stderr, "nullcard: the counts were not written to %s (%m)\n", path);
    free(text.at);
    card_read = 0; /* written once */
}
__attribute__((destructor)) static void at_exit(void) { dump(); }

/* os._exit() runs no destructors; hotloop and forked children leave by it. */
__attribute__((noreturn)) void _exit(int code) {
    dump();
    for (;;) syscall(SYS_exit_group, code);
}
