/* The state that all parts of the null card share, and the few declarations of CUDA's ABI they need.
 *
 * The numbers of errors and the layouts are facts of the ABI of CUDA 13.0 (driver_types.h, cuda.h),
 * written by hand; no header of NVIDIA's is needed to build this library. A rule quoted in a comment
 * comes from the "CUDA Runtime API" reference ("API"), the "CUDA Programming Guide" ("Guide") or
 * the "CUDA Driver API" reference ("Driver"), all at https://docs.nvidia.com/cuda/, version 13.0.
 */
#ifndef NULLCARD_H
#define NULLCARD_H

#include <stddef.h>
#include <stdint.h>

#define CUDA_ABI 13000        /* what cudaRuntimeGetVersion and cuDriverGetVersion answer */
#define MAX_STREAMS 256       /* streams alive at once; torch makes 32 a priority and device */
#define PAGE ((size_t)2 << 20) /* bytes; cuMemGetAllocationGranularity answers it on these cards */

/* cudaError_t; CUresult has the same number for each of these, but for 98. */
enum status {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2, /* cudaErrorMemoryAllocation */
    INITIALIZATION = 3,
    INVALID_CONFIGURATION = 9,
    INVALID_DEVICE_FUNCTION = 98,
    INVALID_DEVICE = 101,
    NO_KERNEL_IMAGE = 209,
    INVALID_HANDLE = 400, /* cudaErrorInvalidResourceHandle */
    ILLEGAL_STATE = 401,
    SYMBOL_NOT_FOUND = 500,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    NOT_SUPPORTED = 801,
    NOT_READY = 600,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
};

/* NULLCARD_RATES has the rates in this order, then those of the memory and of the bus. */
enum precision { FP64, FP32, TF32, FP16, BF16, PRECISIONS };

/* The card, as the environment describes it (see nullcard/cards.py). Sizes are in bytes. */
struct card {
    char name[256];
    int capability; /* 89 for 8.9 */
    size_t memory, shared_block, shared_sm, l2, copy_limit;
    int sms, warp, clock_khz, threads_sm, blocks_sm;
    int timed;                   /* its work takes time: the rates below */
    double flops[PRECISIONS];    /* FLOP/s of products */
    double bandwidth, bus;       /* bytes/s of its memory, and between it and the host */
};

/* What is counted by name. */
enum kind { KERNEL, GEMM, BLAS, WAIT };
struct counter {
    char *name; /* mangled, if it is a kernel's */
    enum kind kind;
    uint64_t launched; /* by a call; of a WAIT: calls that had work to wait for */
    uint64_t replayed; /* by graphs; of a WAIT: calls that had none */
    struct counter *next;
};

enum copy { H2D_PINNED, H2D_PAGEABLE, D2H_PINNED, D2H_PAGEABLE, D2D, H2H, COPIES };
struct volume {
    uint64_t calls, bytes;
};

/* What is counted in all. `reserved` is what cudaMalloc and cuMemCreate have given and not got back. */
struct totals {
    struct volume copies[COPIES], memsets, pinned;
    uint64_t mallocs, frees, refused, reserved, peak, pinned_peak;
    uint64_t events_recorded, event_waits, queries, host_functions;
    uint64_t captures, captures_failed, instantiated, graph_launches;
};

/* A vector clock: of the work of each stream, how much comes before, and when all of it is done. */
struct clock {
    uint64_t seen[MAX_STREAMS];
    double until; /* ms of the host's monotonic clock; a card that is not timed: the past */
};

struct capture;
struct stream {
    int index, priority, alive;
    unsigned flags;
    uint64_t work; /* operations given to it so far */
    struct clock before;
    struct capture *capture; /* NULL: not capturing */
    uint64_t joined_at;      /* its `work` when it joined the capture */
    double busy;             /* ms that all work given to it takes */
};

/* Kernels that the host launched and calls that had to wait, since the start; nothing resets them. */
extern uint64_t nullcard_launched, nullcard_waited;

#pragma GCC visibility push(hidden)

extern struct totals totals;

/* state.c */
int null_lock(void);
void null_unlock(int *);
#define LOCKED __attribute__((cleanup(null_unlock), unused)) int locked = null_lock()
const struct card *null_card(void);     /* reads the environment at the first call; ends on a gap */
int null_fail(int status);              /* sets this thread's last error; returns `status` */
int null_take_error(int keep);          /* returns the last error; forgets it unless `keep` */
int null_ready(void);                   /* SUCCESS, or INITIALIZATION in a forked child */
struct counter *null_counter(enum kind kind, const char *name);
double null_now(void);                  /* ms of the host's monotonic clock */
void null_sleep(double until);          /* until that time; other threads may go on */

/* memory.c */
int null_is_device(const void *p);
int null_is_pinned(const void *p);
void null_add_device(void *start, size_t bytes);
void null_drop_device(void *start);
int null_take(size_t bytes);            /* reserves card memory: OUT_OF_MEMORY above the card's */
void null_give_back(size_t bytes);
void null_fill(void *to, int value, size_t bytes);

/* streams.c */
struct stream *null_stream(const void *handle); /* NULL: no such stream */
/* One operation that takes the card `ms`; without a counter it is not a kernel. */
int null_submit(const void *handle, struct counter *counter, double ms);
void null_merge(struct clock *into, const struct clock *from);
/* The host waits for what comes before `until`: counted as a wait of `call`, or as an idle call if the
 * host has waited for all of that before. */
void null_wait(const char *call, const struct clock *until);
void null_wait_for_all(const char *call);
struct stream *null_streams(int *count);

/* graphs.c */
int null_unsafe(void);                  /* API: a "potentially unsafe" call under a capture */
int null_invalidate_all(void);          /* returns CAPTURE_UNSUPPORTED if there was a capture */
int null_invalidate(struct capture *capture, int status);
int null_capture_blocks_legacy(void);
int null_record_node(struct capture *capture, struct counter *counter, double ms);
int null_is_invalid(const struct capture *capture);
uint64_t null_capture_id(const struct capture *capture);
struct capture *null_capture(uint64_t id); /* NULL: that capture is over */
void null_join(struct stream *stream, struct capture *capture);

/* launches.c */
int null_check_launch(unsigned grid_y, unsigned grid_z, uint64_t grid, uint64_t block, size_t shared,
                      size_t allowed);

/* times.c: ms that a card which is timed needs; 0 for one that is not */
double null_kernel_ms(uint64_t threads);
double null_product_ms(double m, double n, double k, double batches, enum precision precision);
double null_copy_ms(enum copy kind, size_t bytes);
double null_memset_ms(size_t bytes);

/* binaries.c */
int null_architecture(const void *registered); /* 86 for sm_86; 0: none runs on this card */

/* device.c */
int null_attribute(int *value, int attribute);

#pragma GCC visibility pop
#endif
