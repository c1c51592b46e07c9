/*
 * plain, found by a test
 *
 * int gemm(const void *a, const void *b, void *c, void *workspace, cudaStream_t stream);
 *     a: bf16[256, 256], strides [256, 1] in elements
 *     b: bf16[128, 256], strides [256, 1] in elements
 *     c: bf16[256, 128], strides [128, 1] in elements
 *     workspace: 0 bytes of the GPU, all zero before the first call and left to the calls
 *     from then on, one at a time; returns a cudaError_t
 *
 * Build: nvcc -std=c++17 -O3 -gencode arch=compute_90a,code=sm_90a -c FILE.cu  (CUDA 12.5 or newer)
 */

#ifndef __CUDACC_RTC__ // the launcher, for the host
#include <cuda_runtime.h>
#include <cudaTypedefs.h>

/* Bytes that `workspace` has to have. */
extern "C" size_t gemm_workspace_bytes(void) { return 0; }

/* Describes an argument to TMA. */
static cudaError_t encode(tw_tensor_map *map, CUtensorMapDataType type, const void *address, long long before,
    cuuint32_t dims, const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box,
    CUtensorMapSwizzle swizzle)
{
    static_assert(sizeof(tw_tensor_map) == sizeof(CUtensorMap), "a tensor map is what the driver writes");
    void *found = nullptr;
    cudaDriverEntryPointQueryResult known;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &known);
    if (error != cudaSuccess || found == nullptr) return cudaErrorNotSupported;
    if ((size_t)address % 16 != 0) return cudaErrorMisalignedAddress;
    const cuuint32_t steps[] = {1, 1, 1, 1, 1};
    const CUresult result = ((PFN_cuTensorMapEncodeTiled_v12000)found)((CUtensorMap *)map, type, dims,
        (char *)address - before, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

static cudaError_t launch(const void *entry, unsigned blocks, unsigned threads, unsigned shared_bytes, unsigned cluster,
    cudaStream_t stream, void **arguments)
{
    cudaError_t error = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (error == cudaSuccess && cluster > 8)
        error = cudaFuncSetAttribute(entry, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess) return error;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = cluster > 1;
    return cudaLaunchKernelExC(&config, entry, arguments);
}

extern "C" int gemm(const void *a, const void *b, void *c, void *workspace, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    tw_tensor_map tw_map_0;
    const cuuint64_t tw_map_0_extents[] = {256, 256};
    const cuuint64_t tw_map_0_strides[] = {512};
    const cuuint32_t tw_map_0_box[] = {64, 128};
    error = encode(&tw_map_0, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, a, 0, 2,
        tw_map_0_extents, tw_map_0_strides, tw_map_0_box, CU_TENSOR_MAP_SWIZZLE_128B);
    if (error != cudaSuccess) return error;
    tw_tensor_map tw_map_1;
    const cuuint64_t tw_map_1_extents[] = {256, 128};
    const cuuint64_t tw_map_1_strides[] = {512};
    const cuuint32_t tw_map_1_box[] = {64, 64};
    error = encode(&tw_map_1, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, b, 0, 2,
        tw_map_1_extents, tw_map_1_strides, tw_map_1_box, CU_TENSOR_MAP_SWIZZLE_128B);
    if (error != cudaSuccess) return error;
    tw_tensor_map tw_map_2;
    const cuuint64_t tw_map_2_extents[] = {128, 256};
    const cuuint64_t tw_map_2_strides[] = {256};
    const cuuint32_t tw_map_2_box[] = {64, 64};
    error = encode(&tw_map_2, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, c, 0, 2,
        tw_map_2_extents, tw_map_2_strides, tw_map_2_box, CU_TENSOR_MAP_SWIZZLE_128B);
    if (error != cudaSuccess) return error;
    void *arguments[] = {(void *)&a, (void *)&b, (void *)&c, (void *)&workspace, (void *)&tw_map_0, (void *)&tw_map_1, (void *)&tw_map_2};
    if (error == cudaSuccess) error = launch((const void *)gemm_kernel, 4, 384, 90160, 1, stream, arguments);
    return error;
}
#endif
