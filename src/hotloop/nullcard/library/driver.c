/* The driver's API (libcuda): context, modules, launches of Triton's kernels, virtual memory. */
#define _GNU_SOURCE
#include "nullcard.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>


#define NOT_FOUND 500    /* CUDA_ERROR_NOT_FOUND */
#define DEFAULT_SHARED 49152

/* Driver: there is one primary context a device, and it is current. */
static char context[1];
static __thread int popped;

int cuInit(unsigned flags) { return (void)flags, null_ready(); }
int cuDriverGetVersion(int *version) { return *version = CUDA_ABI, SUCCESS; }
int cuDeviceGetCount(int *count) { return *count = 1, SUCCESS; }
int cuDeviceGet(int *device, int index) { return *device = index, index ? INVALID_DEVICE : SUCCESS; }
int cuDeviceGetName(char *name, int size, int device) {
    return (void)device, snprintf(name, (size_t)size, "%s", null_card()->name), SUCCESS;
}
int cuDeviceGetUuid(unsigned char *uuid, int device) {
    return (void)device, memcpy(uuid, "hotloop nullcard", 16), SUCCESS;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { return cuDeviceGetUuid(uuid, device); }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = null_card()->memory, SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    return device ? INVALID_DEVICE : null_attribute(value, attribute);
}
int cuDevicePrimaryCtxRetain(void **out, int device) { return (void)device, *out = context, null_ready(); }
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, SUCCESS; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    (void)device;
    if (flags) *flags = 0;
    return *active = 1, SUCCESS;
}
int cuCtxGetCurrent(void **out) { return *out = popped ? NULL : context, SUCCESS; }
int cuCtxSetCurrent(void *to) { return popped = !to, SUCCESS; }
int cuCtxPushCurrent_v2(void *to) { return (void)to, popped = 0, SUCCESS; }
int cuCtxPopCurrent_v2(void **out) {
    if (out) *out = context;
    return SUCCESS;
}
int cuCtxGetDevice(int *device) { return *device = 0, SUCCESS; }
int cuCtxGetLimit(size_t *value, int limit) { return (void)limit, *value = 0, SUCCESS; }
int cuCtxSetLimit(int limit, size_t value) { return (void)limit, (void)value, SUCCESS; }

const char *cudaGetErrorName(int), *cudaGetErrorString(int);
int cuGetErrorName(int status, const char **out) { return *out = cudaGetErrorName(status), SUCCESS; }
int cuGetErrorString(int status, const char **out) { return *out = cudaGetErrorString(status), SUCCESS; }

int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, unsigned long long, int *);
int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *answer) {
    cudaGetDriverEntryPointByVersion(name, out, (unsigned)version, flags, answer);
    return *out ? SUCCESS : NOT_FOUND;
}

/* ---- modules and launches ---- */

struct function {
    struct counter *counter;
    size_t shared;
};
/* Driver: the binary must be for this device. That is not checked: the image is not read. */
int cuModuleLoadDataEx(void **module, const void *image, unsigned n, void *options, void *values) {
    (void)n, (void)options, (void)values;
    return *module = (void *)context, image ? null_ready() : NO_KERNEL_IMAGE;
}
int cuModuleLoadData(void **module, const void *image) { return cuModuleLoadDataEx(module, image, 0, NULL, NULL); }
int cuModuleLoad(void **module, const char *path) { return cuModuleLoadDataEx(module, path, 0, NULL, NULL); }
int cuModuleUnload(void *module) { return (void)module, SUCCESS; }
int cuModuleGetFunction(struct function **out, void *module, const char *name) {
    (void)module;
    *out = malloc(sizeof **out); /* lives as long as the program, as modules of Triton do */
    **out = (struct function){null_counter(KERNEL, name), DEFAULT_SHARED};
    return SUCCESS;
}
/* Threads a block (0) and the allowed shared memory (8); registers, local and static shared memory
 * stand in the image and are 0. */
int cuFuncGetAttribute(int *value, int attribute, const struct function *function) {
    *value = attribute == 0 ? 1024 : attribute == 8 ? (int)function->shared : 0;
    return SUCCESS;
}
/* Driver: more shared memory (8) than the opt-in limit of the device is CUDA_ERROR_INVALID_VALUE. */
int cuFuncSetAttribute(struct function *function, int attribute, int value) {
    if (attribute != 8) return SUCCESS;
    if (value < 0 || (size_t)value > null_card()->shared_block) return INVALID_VALUE;
    return function->shared = value > DEFAULT_SHARED ? (size_t)value : DEFAULT_SHARED, SUCCESS;
}
int cuFuncSetCacheConfig(void *function, int preference) { return (void)function, (void)preference, SUCCESS; }

int cuLaunchKernel(struct function *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
    (void)parameters, (void)extra;
    int status = null_check_launch(y, z, x, (uint64_t)bx * by * bz, shared, function->shared);
    uint64_t threads = (uint64_t)x * y * z * bx * by * bz;
    return status ? INVALID_VALUE : null_submit(stream, function->counter, null_kernel_ms(threads));
}
int cuLaunchCooperativeKernel(struct function *function, unsigned x, unsigned y, unsigned z, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters) {
    return cuLaunchKernel(function, x, y, z, bx, by, bz, shared, stream, parameters, NULL);
}
struct configuration { /* CUlaunchConfig; attributes are not looked at */
    unsigned x, y, z, bx, by, bz, shared;
    void *stream;
};
_Static_assert(offsetof(struct configuration, stream) == 32, "CUlaunchConfig");
int cuLaunchKernelEx(const struct configuration *how, struct function *function, void **parameters, void **extra) {
    return cuLaunchKernel(function, how->x, how->y, how->z, how->bx, how->by, how->bz, how->shared, how->stream,
                          parameters, extra);
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

/* ---- waits, copies and pointers, as the runtime does them ---- */

int cudaStreamSynchronize(void *), cudaDeviceSynchronize(void), cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpyAsync(void *, const void *, size_t, int, void *), cudaMalloc(void **, size_t), cudaFree(void *);
int cudaStreamIsCapturing(void *, int *);

int cuStreamSynchronize(void *stream) { return cudaStreamSynchronize(stream); }
int cuCtxSynchronize(void) { return cudaDeviceSynchronize(); }
int cuStreamIsCapturing(void *stream, int *status) { return cudaStreamIsCapturing(stream, status); }
int cuMemAlloc_v2(void **p, size_t bytes) { return cudaMalloc(p, bytes); }
int cuMemFree_v2(void *p) { return cudaFree(p); }
int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes) { return cudaMemcpy(to, from, bytes, 1); }
int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes) { return cudaMemcpy(to, from, bytes, 2); }
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    return cudaMemcpyAsync(to, from, bytes, 1, stream);
}
/* The number of 4-byte words is given; each byte of the word is the same in what torch asks (0). */
int cuMemsetD32Async(void *to, unsigned value, size_t words, void *stream) {
    int status = null_submit(stream, NULL, null_memset_ms(4 * words));
    if (!status) null_fill(to, (int)(value & 255), 4 * words);
    return status;
}
/* Driver: 1 context, 2 memory type (1 host, 2 device), 3 device pointer, 9 ordinal of the device. */
int cuPointerGetAttribute(void *out, int attribute, const void *p) {
    int on_card = null_is_device(p);
    if (!on_card && !null_is_pinned(p)) return INVALID_VALUE;
    if (attribute == 1) *(void **)out = context;
    else if (attribute == 2) *(int *)out = on_card ? 2 : 1;
    else if (attribute == 3) *(const void **)out = p;
    else if (attribute == 9) *(int *)out = 0;
    else return NOT_SUPPORTED;
    return SUCCESS;
}

/* ---- what has no model ---- */

#define REFUSED(name) \
    int name(void) { return NOT_SUPPORTED; }
REFUSED(cuTensorMapEncodeTiled)
REFUSED(cuTensorMapEncodeIm2col)
REFUSED(cuOccupancyMaxActiveClusters)
REFUSED(cuLinkCreate_v2)
REFUSED(cuLinkAddData_v2)
REFUSED(cuLinkComplete)
REFUSED(cuMemGetAddressRange_v2)
REFUSED(cuStreamGetCaptureInfo_v2)
REFUSED(cuStreamWriteValue32_v2)
REFUSED(cuMulticastCreate)
REFUSED(cuMulticastAddDevice)
REFUSED(cuMulticastBindMem)
REFUSED(cuMulticastUnbind)
REFUSED(cuGreenCtxCreate)
REFUSED(cuGreenCtxDestroy)
REFUSED(cuGreenCtxStreamCreate)
REFUSED(cuCtxFromGreenCtx)
REFUSED(cuDeviceGetDevResource)
REFUSED(cuDevResourceGenerateDesc)
REFUSED(cuDevSmResourceSplitByCount)
REFUSED(cuMemExportToShareableHandle)
REFUSED(cuMemImportFromShareableHandle)
REFUSED(cuMemRetainAllocationHandle)
REFUSED(cuMemGetAllocationPropertiesFromHandle)
