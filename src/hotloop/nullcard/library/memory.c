/* Memory of the card and pinned memory: given out, looked up, copied and filled. */
#define _GNU_SOURCE
#include "nullcard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS };

/* Address ranges, sorted; there are some thousands at most, for torch allocates in large segments. */
struct range {
    char *start;
    size_t bytes;
    int registered; /* by cudaHostRegister: not ours to free */
};
struct ranges {
    struct range *at;
    int count, room;
};
static struct ranges device, pinned;

static int find(const struct ranges *in, const void *p) {
    int low = 0, high = in->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (in->at[middle].start <= (char *)p) low = middle + 1;
        else high = middle;
    }
    return low - 1; /* the last that starts at `p` or before it */
}
static struct range *holding(const struct ranges *in, const void *p) {
    int i = find(in, p);
    if (i < 0 || (char *)p >= in->at[i].start + in->at[i].bytes) return NULL;
    return &in->at[i];
}
static void add(struct ranges *to, struct range range) {
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 256;
        to->at = realloc(to->at, sizeof *to->at * (size_t)to->room);
    }
    int i = find(to, range.start) + 1;
    memmove(to->at + i + 1, to->at + i, sizeof *to->at * (size_t)(to->count - i));
    to->at[i] = range, to->count++;
}
static void drop(struct ranges *from, struct range *range) {
    int i = (int)(range - from->at);
    memmove(range, range + 1, sizeof *range * (size_t)(from->count - i - 1));
    from->count--;
}
int null_is_device(const void *p) {
    LOCKED;
    return holding(&device, p) != NULL;
}
int null_is_pinned(const void *p) {
    LOCKED;
    return holding(&pinned, p) != NULL;
}

void null_add_device(void *start, size_t bytes) {
    LOCKED;
    add(&device, (struct range){start, bytes, 0});
}
void null_drop_device(void *start) {
    LOCKED;
    struct range *range = holding(&device, start);
    if (range) drop(&device, range);
}

/* cudaMalloc and cuMemCreate share one limit, the card's memory. On a card the context and the
 * modules take some hundred MiB of it; here nothing does. */
int null_take(size_t bytes) {
    LOCKED;
    if (bytes > null_card()->memory || totals.reserved > null_card()->memory - bytes) {
        totals.refused++;
        return OUT_OF_MEMORY;
    }
    totals.reserved += bytes;
    if (totals.reserved > totals.peak) totals.peak = totals.reserved;
    return SUCCESS;
}
void null_give_back(size_t bytes) {
    LOCKED;
    totals.reserved -= bytes;
}

static size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/* API: cudaErrorMemoryAllocation if there is not enough; nothing is then given. The error is not
 * sticky. Each allocation takes whole pages of 2 MiB; on a card small ones share a page. The pages
 * are zero and cost the host nothing until somebody writes to them. */
int cudaMalloc(void **p, size_t bytes) {
    LOCKED;
    int status = null_ready();
    if (!status && !p) status = INVALID_VALUE;
    if (!status) status = null_unsafe();
    if (status) return null_fail(status);
    size_t size = whole_pages(bytes ? bytes : 1);
    if ((status = null_take(size))) return null_fail(status);
    char *got = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return null_give_back(size), null_fail(OUT_OF_MEMORY);
    char *start = (char *)(((uintptr_t)got + PAGE - 1) / PAGE * PAGE); /* aligned as on a card */
    if (start > got) munmap(got, (size_t)(start - got));
    if (got + PAGE > start) munmap(start + size, (size_t)(got + PAGE - start));
    null_add_device(start, size);
    totals.mallocs++;
    return *p = start, SUCCESS;
}
/* API: NULL is no operation; a pointer that was not given, or given back, is cudaErrorInvalidValue.
 * On a card cudaFree may wait for the work that uses the memory; it is counted as a free only. */
int cudaFree(void *p) {
    LOCKED;
    int status = null_ready();
    if (status || !p) return null_fail(status);
    if ((status = null_unsafe())) return null_fail(status);
    struct range *range = holding(&device, p);
    if (!range || range->start != (char *)p) return null_fail(INVALID_VALUE);
    munmap(p, range->bytes);
    null_give_back(range->bytes);
    drop(&device, range);
    totals.frees++;
    return SUCCESS;
}
/* The stream-ordered allocator is modelled without its pool: each block is one of cudaMalloc. */
int cudaMallocAsync(void **p, size_t bytes, void *stream) { return (void)stream, cudaMalloc(p, bytes); }
int cudaFreeAsync(void *p, void *stream) { return (void)stream, cudaFree(p); }

/* API: free and total memory of the device, in bytes. */
int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    LOCKED;
    if (null_ready()) return null_fail(INITIALIZATION);
    *total_bytes = null_card()->memory;
    *free_bytes = *total_bytes - totals.reserved;
    return SUCCESS;
}

static void pin(void *p, size_t bytes, int registered) {
    add(&pinned, (struct range){p, bytes, registered});
    totals.pinned.calls++, totals.pinned.bytes += bytes;
    if (totals.pinned.bytes > totals.pinned_peak) totals.pinned_peak = totals.pinned.bytes;
}
static void unpin(struct range *range) {
    totals.pinned.bytes -= range->bytes;
    drop(&pinned, range);
}
/* API: page-locked host memory, which the device can reach. Nothing is locked here. */
int cudaHostAlloc(void **p, size_t bytes, unsigned flags) {
    (void)flags;
    LOCKED;
    int status = null_ready();
    if (!status) status = null_unsafe();
    if (status) return null_fail(status);
    size_t size = bytes ? bytes : 1;
    *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*p == MAP_FAILED) return null_fail(OUT_OF_MEMORY);
    pin(*p, size, 0);
    return SUCCESS;
}
int cudaMallocHost(void **p, size_t bytes) { return cudaHostAlloc(p, bytes, 0); }
int cudaFreeHost(void *p) {
    LOCKED;
    if (!p) return SUCCESS;
    int status = null_unsafe();
    if (status) return null_fail(status);
    struct range *range = holding(&pinned, p);
    if (!range || range->start != (char *)p || range->registered) return null_fail(INVALID_VALUE);
    munmap(p, range->bytes);
    unpin(range);
    return SUCCESS;
}
/* API: cudaErrorHostMemoryAlreadyRegistered and cudaErrorHostMemoryNotRegistered. */
int cudaHostRegister(void *p, size_t bytes, unsigned flags) {
    (void)flags;
    LOCKED;
    int status = null_ready();
    if (!status) status = null_unsafe();
    if (!status && (!p || !bytes)) status = INVALID_VALUE;
    if (!status && holding(&pinned, p)) status = ALREADY_REGISTERED;
    if (status) return null_fail(status);
    pin(p, bytes, 1);
    return SUCCESS;
}
int cudaHostUnregister(void *p) {
    LOCKED;
    struct range *range = holding(&pinned, p);
    if (!range || range->start != (char *)p || !range->registered) return null_fail(NOT_REGISTERED);
    unpin(range);
    return SUCCESS;
}

struct attributes { /* cudaPointerAttributes */
    int type, device;
    void *device_pointer, *host_pointer;
    long reserved[8];
};
/* API: since CUDA 11 memory that CUDA does not know is cudaMemoryTypeUnregistered, not an error. */
int cudaPointerGetAttributes(struct attributes *out, const void *p) {
    enum { UNREGISTERED, HOST, DEVICE };
    LOCKED;
    *out = (struct attributes){.type = UNREGISTERED};
    if (holding(&device, p)) *out = (struct attributes){.type = DEVICE, .device_pointer = (void *)p};
    else if (holding(&pinned, p))
        *out = (struct attributes){.type = HOST, .device_pointer = (void *)p, .host_pointer = (void *)p};
    return SUCCESS;
}

/* ---- copies ---- */

static enum copy kind_of(const void *to, const void *from, int direction) {
    int to_device = direction == HOST_TO_DEVICE || direction == DEVICE_TO_DEVICE;
    int from_device = direction == DEVICE_TO_HOST || direction == DEVICE_TO_DEVICE;
    if (direction == BY_ADDRESS) to_device = null_is_device(to), from_device = null_is_device(from);
    if (to_device && from_device) return D2D;
    if (to_device) return null_is_pinned(from) ? H2D_PINNED : H2D_PAGEABLE;
    if (from_device) return null_is_pinned(to) ? D2H_PINNED : D2H_PAGEABLE;
    return H2H;
}
/* Bytes really move, so that a value that was sent comes back: all that go to the host, and to the
 * card up to the stated limit, above which the memory of the card keeps what it held. */
static int reads_zeros;
/* From now on zeros come from the card: a size or an index that no kernel computed, such as nonzero's,
 * would otherwise be whatever the memory held before. */
void nullcard_read_zeros(int on) {
    reads_zeros = on;
}
static void move(void *to, const void *from, size_t bytes, enum copy kind) {
    int from_card = kind == D2H_PINNED || kind == D2H_PAGEABLE, to_host = from_card || kind == H2H;
    if (from_card && reads_zeros) memset(to, 0, bytes);
    else if (to_host || bytes <= null_card()->copy_limit) memmove(to, from, bytes);
}
static void count(enum copy kind, size_t bytes) {
    totals.copies[kind].calls++, totals.copies[kind].bytes += bytes;
}
/* API, "API synchronization behavior": a copy from the device to pageable memory may return only
 * when it is complete (up to CUDA 11 "will"), and it is counted as a wait. One from pageable memory
 * to the device may wait for the stream while it is staged; it is seen in the count h2d_pageable,
 * and is no wait. Between pinned memory and the device, and on the device, no copy waits.
 * In a capture a copy is a node. One of pageable memory is refused: not in the reference, but torch
 * says so ("unless the CPU tensor is pinned", CopyBytes in aten/src/ATen/native/cuda/Copy.cu). */
static int enqueue(void *handle, enum copy kind, size_t bytes, int *runs_now) {
    struct stream *stream = null_stream(handle);
    int status = null_ready();
    if (!status && !stream) status = INVALID_HANDLE;
    if (status || !bytes) return null_fail(status);
    *runs_now = !stream->capture;
    if (stream->capture && (kind == H2D_PAGEABLE || kind == D2H_PAGEABLE))
        return null_fail(null_invalidate(stream->capture, CAPTURE_UNSUPPORTED));
    if ((status = null_submit(handle, NULL, null_copy_ms(kind, bytes)))) return null_fail(status);
    if (!*runs_now) return SUCCESS;
    count(kind, bytes);
    if (kind == D2H_PAGEABLE) null_wait("cudaMemcpyAsync to pageable memory", &stream->before);
    return SUCCESS;
}
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int direction, void *stream) {
    LOCKED;
    enum copy kind = kind_of(to, from, direction);
    int runs_now = 0, status = enqueue(stream, kind, bytes, &runs_now);
    if (runs_now && !status) move(to, from, bytes, kind);
    return status;
}
int cudaMemcpyPeerAsync(void *to, int d, const void *from, int s, size_t bytes, void *stream) {
    return (void)d, (void)s, cudaMemcpyAsync(to, from, bytes, DEVICE_TO_DEVICE, stream);
}
/* API: `height` rows of `width` bytes; it is counted as one copy. */
int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                      size_t height, int direction, void *stream) {
    LOCKED;
    enum copy kind = kind_of(to, from, direction);
    int runs_now = 0, status = enqueue(stream, kind, width * height, &runs_now);
    for (size_t row = 0; runs_now && !status && row < height; row++)
        move((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width, kind);
    return status;
}
/* The same document: the synchronous form goes through the default stream; it returns once the
 * copy is complete, but for one on the device, which does not wait. Under a capture it is refused. */
int cudaMemcpy(void *to, const void *from, size_t bytes, int direction) {
    LOCKED;
    int status = null_ready();
    if (!status) status = null_unsafe();
    enum copy kind = kind_of(to, from, direction);
    if (!status && bytes) status = null_submit(NULL, NULL, null_copy_ms(kind, bytes));
    if (status) return null_fail(status);
    if (!bytes) return SUCCESS;
    move(to, from, bytes, kind), count(kind, bytes);
    if (kind != D2D) null_wait("cudaMemcpy", &null_stream(NULL)->before);
    return SUCCESS;
}
/* Symbols of modules have no memory here: the bytes go nowhere, the wait is counted. */
int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int direction) {
    (void)symbol, (void)from, (void)offset, (void)direction;
    LOCKED;
    int status = null_unsafe();
    if (!status) status = null_submit(NULL, NULL, null_copy_ms(H2D_PAGEABLE, bytes));
    if (status) return null_fail(status);
    count(H2D_PAGEABLE, bytes);
    null_wait("cudaMemcpyToSymbol", &null_stream(NULL)->before);
    return SUCCESS;
}

void null_fill(void *to, int value, size_t bytes) {
    if (bytes <= null_card()->copy_limit) memset(to, value, bytes);
    totals.memsets.calls++, totals.memsets.bytes += bytes;
}
/* The same document: cudaMemset of device memory does not wait for the host. */
int cudaMemsetAsync(void *to, int value, size_t bytes, void *handle) {
    LOCKED;
    struct stream *stream = null_stream(handle);
    int status = null_ready();
    if (!status && !stream) status = INVALID_HANDLE;
    int capturing = !status && stream->capture != NULL;
    if (!status && bytes) status = null_submit(handle, NULL, null_memset_ms(bytes));
    if (status) return null_fail(status);
    if (bytes && !capturing) null_fill(to, value, bytes);
    return SUCCESS;
}
int cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }
