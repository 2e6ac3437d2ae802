/* Virtual memory management of the driver, which torch's expandable segments are made of. */
#define _GNU_SOURCE
#include "nullcard.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Driver, "Virtual memory management": sizes and addresses are multiples of the granularity. */
static int whole(size_t bytes) { return bytes && bytes % PAGE == 0; }

int cuMemGetAllocationGranularity(size_t *granularity, const void *properties, int option) {
    (void)properties, (void)option;
    return *granularity = PAGE, SUCCESS;
}
/* Addresses without memory; they cost the card nothing. */
int cuMemAddressReserve(void **out, size_t bytes, size_t alignment, void *address, unsigned long long flags) {
    (void)alignment, (void)address, (void)flags;
    if (!whole(bytes)) return INVALID_VALUE;
    char *got = mmap(NULL, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return OUT_OF_MEMORY;
    char *start = (char *)(((uintptr_t)got + PAGE - 1) / PAGE * PAGE);
    if (start > got) munmap(got, (size_t)(start - got));
    if (got + PAGE > start) munmap(start + bytes, (size_t)(got + PAGE - start));
    return *out = start, SUCCESS;
}
int cuMemAddressFree(void *start, size_t bytes) { return munmap(start, bytes) ? INVALID_VALUE : SUCCESS; }

/* Memory without an address; this is what counts against the card. */
struct block {
    size_t bytes;
    int maps, released;
};
/* Not among the calls that a capture forbids: torch makes and maps memory in a capture without
 * relaxing its mode, and runs its tests of graphs so (test/test_cuda_expandable_segments.py). */
int cuMemCreate(struct block **out, size_t bytes, const void *properties, unsigned long long flags) {
    (void)properties, (void)flags;
    LOCKED;
    int status = null_ready();
    if (!status && !whole(bytes)) status = INVALID_VALUE;
    if (!status) status = null_take(bytes);
    if (status) return status;
    totals.mallocs++;
    *out = malloc(sizeof **out);
    **out = (struct block){bytes, 0, 0};
    return SUCCESS;
}
/* Driver, cuMemRelease: the memory is given back once it is released and no longer mapped. */
static int give_back(struct block *block) {
    if (!block->released || block->maps) return SUCCESS;
    null_give_back(block->bytes);
    totals.frees++;
    return free(block), SUCCESS;
}
int cuMemRelease(struct block *block) {
    LOCKED;
    return block->released = 1, give_back(block);
}

/* Mapped blocks by address. */
static struct mapping {
    char *start;
    struct block *block;
    struct mapping *next;
} *mappings;

int cuMemMap(char *start, size_t bytes, size_t offset, struct block *block, unsigned long long flags) {
    (void)flags;
    LOCKED;
    if (offset || bytes != block->bytes) return INVALID_VALUE; /* Driver: offset must be zero */
    struct mapping *made = malloc(sizeof *made);
    *made = (struct mapping){start, block, mappings};
    mappings = made, block->maps++;
    null_add_device(start, bytes);
    return SUCCESS;
}
/* Driver: mapped memory cannot be reached before access is set. */
int cuMemSetAccess(void *start, size_t bytes, const void *how, size_t count) {
    (void)how, (void)count;
    return mprotect(start, bytes, PROT_READ | PROT_WRITE) ? INVALID_VALUE : SUCCESS;
}
int cuMemUnmap(char *start, size_t bytes) {
    LOCKED;
    for (struct mapping **slot = &mappings; *slot;) {
        struct mapping *one = *slot;
        if (one->start < start || one->start >= start + bytes) {
            slot = &one->next;
            continue;
        }
        *slot = one->next;
        null_drop_device(one->start);
        one->block->maps--;
        give_back(one->block);
        free(one);
    }
    madvise(start, bytes, MADV_DONTNEED);
    return mprotect(start, bytes, PROT_NONE) ? INVALID_VALUE : SUCCESS;
}
