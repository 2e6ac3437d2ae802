/* A library of its own, for NVML: torch from 2.14 on asks it for a card's fabric, and before that for
 * the processes on a card that is full. The other one needs it, so that the loader has both.
 *
 * API: the NVML reference, https://docs.nvidia.com/deploy/nvml-api/. What is not here is not found:
 * torch.cuda.device_count() then asks CUDA, and nvidia-ml-py raises NVMLError_FunctionNotFound.
 */
#include "nullcard.h"

#define NOT_SUPPORTED 3 /* of nvmlReturn_t */

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out) {
    static int device;
    (void)bus;
    return *out = &device, SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes) {
    (void)device, (void)processes;
    return *count = 0, SUCCESS;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type) {
    return (void)device, (void)link, (void)type, NOT_SUPPORTED;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *info) {
    return (void)device, (void)link, (void)info, NOT_SUPPORTED;
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return *version = CUDA_ABI, SUCCESS; }
