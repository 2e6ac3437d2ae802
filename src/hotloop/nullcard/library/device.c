/* The one device: its identity and properties, the errors' names, and what has no model here. */
#define _GNU_SOURCE
#include "nullcard.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define THREADS_BLOCK 1024 /* this and what follows: Guide, "Technical specifications per compute
                              capability", the same for 7.5 to 12.0 */
#define REGISTERS 65536
#define SHARED_BLOCK 49152 /* bytes, without opting in */
#define CONSTANT 65536     /* bytes */
#define GRID_X 2147483647
#define GRID_YZ 65535

int cudaGetDeviceCount(int *count) { return *count = 1, SUCCESS; }
int cudaGetDevice(int *device) { return *device = 0, SUCCESS; }
int cudaSetDevice(int device) { return null_fail(device ? INVALID_DEVICE : null_ready()); }
int cudaDriverGetVersion(int *version) { return *version = CUDA_ABI, SUCCESS; }
int cudaRuntimeGetVersion(int *version) { return *version = CUDA_ABI, SUCCESS; }
int cudaDeviceCanAccessPeer(int *can, int device, int peer) { return (void)device, (void)peer, *can = 0, SUCCESS; }
int cudaDeviceEnablePeerAccess(int peer, unsigned flags) { return (void)peer, (void)flags, null_fail(INVALID_DEVICE); }
int cudaDeviceGetPCIBusId(char *text, int size, int device) {
    return (void)device, snprintf(text, (size_t)size, "0000:01:00.0"), SUCCESS;
}
int cudaProfilerStart(void) { return SUCCESS; }
int cudaProfilerStop(void) { return SUCCESS; }

/* cudaDeviceProp of CUDA 13, 1008 bytes; the gaps hold what nobody has asked for. */
struct properties {
    char name[256];
    unsigned char uuid[16];
    char gap0[16];
    size_t memory, shared_block;
    int registers_block, warp;
    size_t pitch;
    int threads_block, block[3], grid[3];
    size_t constant;
    int major, minor;
    size_t texture_alignment, texture_pitch;
    int sms, integrated, maps_host, gap1[41];
    int concurrent, ecc, pci_bus, pci_device, pci_domain, tcc, copy_engines, unified, bus_width, l2, persisting_l2;
    int threads_sm, priorities, gap2[3];
    size_t shared_sm;
    int registers_sm, managed, gap3[7], cooperative;
    size_t shared_optin;
    int gap4[2], blocks_sm, gap5;
    size_t shared_reserved;
    int registers_host, gap6[3], pools, gap7[71];
};
#define AT(field, offset) _Static_assert(offsetof(struct properties, field) == offset, #field)
AT(memory, 288);
AT(warp, 308);
AT(major, 360);
AT(sms, 384);
AT(concurrent, 560);
AT(l2, 596);
AT(threads_sm, 604);
AT(shared_sm, 624);
AT(cooperative, 668);
AT(shared_optin, 672);
AT(blocks_sm, 688);
AT(shared_reserved, 696);
AT(pools, 720);
_Static_assert(sizeof(struct properties) == 1008, "cudaDeviceProp");

/* API: the device's properties. What the card's table does not state stays 0: the width of the
 * memory bus, textures, surfaces. */
int cudaGetDeviceProperties(struct properties *out, int device) {
    if (device || null_ready()) return null_fail(device ? INVALID_DEVICE : INITIALIZATION);
    const struct card *card = null_card();
    memset(out, 0, sizeof *out);
    memcpy(out->name, card->name, sizeof out->name);
    memcpy(out->uuid, "hotloop nullcard", sizeof out->uuid);
    out->memory = card->memory, out->shared_block = SHARED_BLOCK, out->constant = CONSTANT;
    out->registers_block = out->registers_sm = REGISTERS, out->warp = card->warp;
    out->pitch = GRID_X;
    out->threads_block = out->block[0] = out->block[1] = THREADS_BLOCK, out->block[2] = 64;
    out->grid[0] = GRID_X, out->grid[1] = out->grid[2] = GRID_YZ;
    out->major = card->capability / 10, out->minor = card->capability % 10;
    out->texture_alignment = 512;
    out->sms = card->sms, out->threads_sm = card->threads_sm, out->blocks_sm = card->blocks_sm;
    out->maps_host = out->concurrent = out->unified = out->priorities = out->managed = 1;
    out->cooperative = out->registers_host = out->pci_bus = 1;
    out->copy_engines = 2;
    out->l2 = (int)card->l2, out->shared_sm = card->shared_sm, out->shared_optin = card->shared_block;
    out->shared_reserved = card->capability >= 80 ? 1024 : 0;
    return SUCCESS;
}

/* The numbers are those of cudaDeviceAttr and of CUdevice_attribute, which agree. Others answer 0:
 * "not supported". */
int null_attribute(int *value, int attribute) {
    struct properties p;
    int status = cudaGetDeviceProperties(&p, 0);
    if (status) return status;
    const int pairs[][2] = {
        {1, p.threads_block}, {2, p.block[0]},      {3, p.block[1]},   {4, p.block[2]},
        {5, p.grid[0]},       {6, p.grid[1]},       {7, p.grid[2]},    {8, (int)p.shared_block},
        {9, (int)p.constant}, {10, p.warp},         {11, (int)p.pitch}, {12, p.registers_block},
        {13, null_card()->clock_khz},               {14, (int)p.texture_alignment},
        {16, p.sms},          {19, p.maps_host},    {31, p.concurrent}, {33, p.pci_bus},
        {38, p.l2},           {39, p.threads_sm},   {40, p.copy_engines}, {41, p.unified},
        {75, p.major},        {76, p.minor},        {78, p.priorities}, {81, (int)p.shared_sm},
        {82, p.registers_sm}, {83, p.managed},      {95, p.cooperative}, {97, (int)p.shared_optin},
        {99, p.registers_host}, {102, 1 /* virtual memory management: driver.c */},
        {106, p.blocks_sm},   {111, (int)p.shared_reserved},
    };
    *value = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] == attribute) *value = pairs[i][1];
    return SUCCESS;
}
int cudaDeviceGetAttribute(int *value, int attribute, int device) {
    return null_fail(device ? INVALID_DEVICE : null_attribute(value, attribute));
}

/* ---- errors ---- */

int cudaGetLastError(void) { return null_take_error(0); }
int cudaPeekAtLastError(void) { return null_take_error(1); }

static const struct {
    int status;
    const char *name, *text;
} errors[] = {
    {SUCCESS, "cudaSuccess", "no error"},
    {INVALID_VALUE, "cudaErrorInvalidValue", "invalid argument"},
    {OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {INITIALIZATION, "cudaErrorInitializationError", "initialization error"},
    {INVALID_CONFIGURATION, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {INVALID_DEVICE_FUNCTION, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {INVALID_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {NO_KERNEL_IMAGE, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"},
    {INVALID_HANDLE, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {ILLEGAL_STATE, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {SYMBOL_NOT_FOUND, "cudaErrorSymbolNotFound", "named symbol not found"},
    {ALREADY_REGISTERED, "cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"},
    {NOT_REGISTERED, "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
    {NOT_SUPPORTED, "cudaErrorNotSupported", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {CAPTURE_MERGE, "cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"},
    {CAPTURE_UNMATCHED, "cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"},
    {CAPTURE_UNJOINED, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {CAPTURE_ISOLATION, "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"},
    {CAPTURE_IMPLICIT, "cudaErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing blocking stream"},
    {CAPTURED_EVENT, "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"},
    {CAPTURE_WRONG_THREAD, "cudaErrorStreamCaptureWrongThread", "attempt to terminate a thread-local capture sequence from another thread"},
};
const char *cudaGetErrorString(int status) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].status == status) return errors[i].text;
    return "unrecognized error code";
}
const char *cudaGetErrorName(int status) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].status == status) return errors[i].name;
    return "unrecognized error code";
}

/* ---- what has no model: refused, so that nobody takes the answer for a card's ---- */

int cudaIpcGetMemHandle(void) { return null_fail(NOT_SUPPORTED); }
int cudaIpcOpenMemHandle(void) { return null_fail(NOT_SUPPORTED); }
int cudaIpcCloseMemHandle(void) { return null_fail(NOT_SUPPORTED); }
int cudaIpcGetEventHandle(void) { return null_fail(NOT_SUPPORTED); }
int cudaIpcOpenEventHandle(void) { return null_fail(NOT_SUPPORTED); }
int cudaDeviceGetDefaultMemPool(void) { return null_fail(NOT_SUPPORTED); }
int cudaMemPoolGetAttribute(void) { return null_fail(NOT_SUPPORTED); }
int cudaMemPoolSetAttribute(void) { return null_fail(NOT_SUPPORTED); }
int cudaMemPoolSetAccess(void) { return null_fail(NOT_SUPPORTED); }
int cudaMemPoolTrimTo(void) { return null_fail(NOT_SUPPORTED); }
int cudaLibraryLoadData(void) { return null_fail(NOT_SUPPORTED); }
int cudaGetSymbolAddress(void **out, const void *symbol) {
    return (void)symbol, *out = NULL, null_fail(NOT_SUPPORTED);
}

/* API: the address of a driver call by its name without a version; "not found" is no error but an
 * answer of its own (cudaDriverEntryPointSymbolNotFound, 1). */
int cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags,
                                     int *answer) {
    (void)version, (void)flags;
    char newer[128];
    snprintf(newer, sizeof newer, "%s_v2", name);
    *out = dlsym(RTLD_DEFAULT, newer);
    if (!*out) *out = dlsym(RTLD_DEFAULT, name);
    if (answer) *answer = *out ? 0 : 1;
    return SUCCESS;
}
