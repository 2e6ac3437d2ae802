/* Kernels of the runtime: they are registered under their names, checked, counted, and do nothing. */
#define _GNU_SOURCE
#include "nullcard.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS (1 << 17)       /* torch registers some 30,000 kernels */
#define DEFAULT_SHARED 49152  /* bytes a block may use without opting in: Guide, 48 KB */
#define MAX_THREADS 1024      /* a block; Guide, "Technical specifications per compute capability" */
#define MAX_GRID_YZ 65535     /* the same table */
#define MAX_GRID_X 2147483647 /* the same table */
#define REGISTERS 65536       /* 32-bit registers of an SM and of a block; the same table */

struct dim3 {
    unsigned x, y, z;
};
struct module {
    const void *binaries;
    int architecture; /* that runs on this card; -1: not asked yet */
};
struct kernel {
    const void *host; /* its address in the program */
    struct module *module;
    struct counter *counter;
    size_t shared; /* dynamic shared memory it may ask for, bytes */
};
static struct kernel kernels[SLOTS];

static struct kernel *slot_of(const void *host) {
    uintptr_t i = ((uintptr_t)host >> 4) * 2654435761u;
    while (kernels[i % SLOTS].host && kernels[i % SLOTS].host != host) i++;
    return &kernels[i % SLOTS];
}
static struct kernel *kernel_at(const void *host) {
    struct kernel *kernel = slot_of(host);
    return kernel->host ? kernel : NULL;
}

/* The architecture of the kernel's binary on this card. API: cudaErrorNoKernelImageForDevice if the
 * program brings none, and cudaErrorInvalidDeviceFunction if it has no such kernel. */
static int find(const void *host, struct kernel **kernel) {
    int status = null_ready();
    *kernel = kernel_at(host);
    if (status || !*kernel) return status ? status : INVALID_DEVICE_FUNCTION;
    struct module *module = (*kernel)->module;
    if (module->architecture < 0) module->architecture = null_architecture(module->binaries);
    return module->architecture ? SUCCESS : NO_KERNEL_IMAGE;
}

/* ---- what nvcc's start-up code calls (host_runtime.h of the toolkit) ---- */

struct module *__cudaRegisterFatBinary(const void *binaries) {
    struct module *module = malloc(sizeof *module);
    *module = (struct module){binaries, -1};
    return module;
}
void __cudaRegisterFatBinaryEnd(struct module *module) { (void)module; }
void __cudaUnregisterFatBinary(struct module *module) { (void)module; }
char __cudaInitModule(struct module *module) { return (void)module, 1; }
void __cudaRegisterFunction(struct module *module, const char *host, char *device, const char *name, int threads,
                            void *thread, void *block, void *blocks, void *grid, int *warp) {
    (void)device, (void)threads, (void)thread, (void)block, (void)blocks, (void)grid, (void)warp;
    LOCKED;
    *slot_of(host) = (struct kernel){host, module, null_counter(KERNEL, name), DEFAULT_SHARED};
}
void __cudaRegisterVar(struct module *module, char *host, char *address, const char *name, int extern_, size_t size,
                       int constant, int global) {
    (void)module, (void)host, (void)address, (void)name, (void)extern_, (void)size, (void)constant, (void)global;
}
/* `kernel<<<grid, block, shared, stream>>>` pushes its configuration, and the stub pops it. */
static __thread struct {
    struct dim3 grid, block;
    size_t shared;
    void *stream;
} pushed;
unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream) {
    pushed.grid = grid, pushed.block = block, pushed.shared = shared, pushed.stream = stream;
    return 0;
}
int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void **stream) {
    *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared, *stream = pushed.stream;
    return SUCCESS;
}
int __cudaGetKernel(const void **kernel, const void *host) { return *kernel = host, SUCCESS; }

/* ---- launches ---- */

/* API: a grid or block of no threads or beyond the limits of the device is
 * cudaErrorInvalidConfiguration; more shared memory than the kernel was allowed,
 * cudaErrorInvalidValue. Registers and static shared memory of a kernel are not known. */
int null_check_launch(unsigned y, unsigned z, uint64_t x, uint64_t block, size_t shared, size_t allowed) {
    if (!x || !y || !z || !block || block > MAX_THREADS) return INVALID_CONFIGURATION;
    if (x > MAX_GRID_X || y > MAX_GRID_YZ || z > MAX_GRID_YZ) return INVALID_CONFIGURATION;
    return shared > allowed ? INVALID_VALUE : SUCCESS;
}
static int launch(const void *host, struct dim3 grid, struct dim3 block, size_t shared, void *stream) {
    LOCKED;
    struct kernel *kernel;
    int status = find(host, &kernel);
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (!status) status = null_check_launch(grid.y, grid.z, grid.x, threads, shared, kernel->shared);
    uint64_t all = (uint64_t)grid.x * grid.y * grid.z * threads;
    return null_fail(status ? status : null_submit(stream, kernel->counter, null_kernel_ms(all)));
}
int cudaLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                     void *stream) {
    return (void)arguments, launch(host, grid, block, shared, stream);
}
int __cudaLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                       void *stream) {
    return (void)arguments, launch(host, grid, block, shared, stream);
}
/* A launch of which all blocks must be resident: that they fit is not checked. */
int cudaLaunchCooperativeKernel(const void *host, struct dim3 grid, struct dim3 block, void **arguments,
                                size_t shared, void *stream) {
    return (void)arguments, launch(host, grid, block, shared, stream);
}
struct configuration { /* cudaLaunchConfig_t; attributes (clusters and so on) are not looked at */
    struct dim3 grid, block;
    size_t shared;
    void *stream;
};
int cudaLaunchKernelExC(const struct configuration *how, const void *host, void **arguments) {
    return (void)arguments, launch(host, how->grid, how->block, how->shared, how->stream);
}
/* API: the function runs after the work before it, on a thread of the driver, and not in a capture
 * but at each replay. All work is complete here, so it runs at once; replays do not call it. */
static int call_host(void *stream, void (*function)(void *), void *data) {
    int capturing;
    {
        LOCKED;
        int status = null_stream(stream) ? SUCCESS : INVALID_HANDLE;
        capturing = !status && null_stream(stream)->capture;
        if (!status) status = null_submit(stream, NULL, 0);
        if (status) return null_fail(status);
        totals.host_functions++;
    }
    if (!capturing) function(data);
    return SUCCESS;
}
int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data) { return call_host(stream, function, data); }
struct callback {
    void (*function)(void *stream, int status, void *data);
    void *stream, *data;
};
static void call_back(void *p) {
    struct callback *callback = p;
    callback->function(callback->stream, SUCCESS, callback->data);
}
/* API: "not supported" in a capture. */
int cudaStreamAddCallback(void *stream, void (*function)(void *, int, void *), void *data, unsigned flags) {
    (void)flags;
    struct callback callback = {function, stream, data};
    {
        LOCKED;
        struct stream *one = null_stream(stream);
        if (one && one->capture) return null_fail(null_invalidate(one->capture, CAPTURE_UNSUPPORTED));
    }
    return call_host(stream, call_back, &callback);
}

/* ---- attributes of kernels ---- */

struct function { /* cudaFuncAttributes, 144 bytes */
    size_t shared, constant, local;
    int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared;
    char rest[96];
};
_Static_assert(offsetof(struct function, max_dynamic_shared) == 44 && sizeof(struct function) == 144, "cudaFuncAttributes");

/* Registers and static shared memory stand in the binary, which is not read: the answer is what lets
 * a block of 1024 threads run. The versions are those of the binary that runs on the card: 8.6 on an
 * 8.9 for torch's wheel, by which CUB chooses its tuning. */
int cudaFuncGetAttributes(struct function *out, const void *host) {
    LOCKED;
    struct kernel *kernel;
    int status = find(host, &kernel);
    if (status) return null_fail(status);
    int version = kernel->module->architecture;
    *out = (struct function){.max_threads = MAX_THREADS, .registers = REGISTERS / MAX_THREADS,
                             .ptx_version = version, .binary_version = version,
                             .max_dynamic_shared = (int)kernel->shared};
    return SUCCESS;
}
/* API: cudaFuncAttributeMaxDynamicSharedMemorySize (8) above the opt-in limit of the device is
 * cudaErrorInvalidValue. The others are hints. */
int cudaFuncSetAttribute(const void *host, int attribute, int value) {
    LOCKED;
    struct kernel *kernel;
    int status = find(host, &kernel);
    if (status) return null_fail(status);
    if (attribute != 8) return SUCCESS;
    if (value < 0 || (size_t)value > null_card()->shared_block) return null_fail(INVALID_VALUE);
    kernel->shared = value > DEFAULT_SHARED ? (size_t)value : DEFAULT_SHARED;
    return SUCCESS;
}
int cudaKernelSetAttributeForDevice(const void *host, int attribute, int value, int device) {
    return (void)device, cudaFuncSetAttribute(host, attribute, value);
}
/* Guide, "Occupancy": threads, blocks and shared memory of an SM limit it; each block takes 1 KiB of
 * shared memory more from 8.0 on. Registers limit it too; they are not known. */
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int threads,
                                                           size_t shared, unsigned flags) {
    (void)host, (void)flags;
    if (null_ready()) return null_fail(INITIALIZATION);
    const struct card *card = null_card();
    if (threads <= 0) return null_fail(INVALID_VALUE);
    size_t taken = shared + (card->capability >= 80 ? 1024 : 0);
    int most = card->blocks_sm, by_threads = card->threads_sm / threads;
    if (by_threads < most) most = by_threads;
    if (shared > card->shared_block || threads > MAX_THREADS) most = 0;
    if (taken && card->shared_sm / taken < (size_t)most) most = (int)(card->shared_sm / taken);
    return *blocks = most, SUCCESS;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, shared, 0);
}
