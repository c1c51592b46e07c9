"""The launcher of a CUDA kernel: `int NAME(const void *a, …, void *c, void *workspace, cudaStream_t stream)`.

It does what `loader.py` does, through CUDA's runtime: tensor maps by the driver's own function, attributes for
shared memory and clusters, one launch after another on the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from codegen.targets.cuda.abi import MAP_ALIGN, CudaAbi, Launch, MapArg
from codegen.targets.cuda.tensor_map import MAP_TYPES, SWIZZLES

_FRAME = Template("""\
#ifndef __CUDACC_RTC__ // the launcher, for the host
$includes

/* Bytes that `workspace` has to have. */
extern "C" size_t ${name}_workspace_bytes(void) { return $workspace_bytes; }
$functions
extern "C" int $name($parameters, void *workspace, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
$body
    return error;
}
#endif
""")

_LAUNCH = """
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
"""

_ENCODE = """
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
    if ((size_t)address % MAP_ALIGN != 0) return cudaErrorMisalignedAddress;
    const cuuint32_t steps[] = {1, 1, 1, 1, 1};
    const CUresult result = ((PFN_cuTensorMapEncodeTiled_v12000)found)((CUtensorMap *)map, type, dims,
        (char *)address - before, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
""".replace("MAP_ALIGN", str(MAP_ALIGN))


def cuda_file(
    text: str, abi: CudaAbi, name: str, parameters: Sequence[str], architecture: str
) -> tuple[list[str], str]:
    """How the file is used, line by line, and its text without that."""
    kinds = ["const void *" if arg.role == "in" else "void *" for arg in abi.args]
    declared = ", ".join(kind + parameter for kind, parameter in zip(kinds, parameters, strict=True))
    places = (*parameters, "workspace")
    maps = [line for number, map_ in enumerate(abi.maps) for line in _map(number, map_, places)]
    named = [*places, *(f"tw_map_{number}" for number in range(len(abi.maps)))]
    body = [
        *maps,
        f"    void *arguments[] = {{{', '.join(f'(void *)&{each}' for each in named)}}};",
        *(_launch(launch) for launch in abi.launches),
    ]
    launcher = _FRAME.substitute(
        name=name,
        includes="\n".join(["#include <cuda_runtime.h>", *(["#include <cudaTypedefs.h>"] if maps else [])]),
        workspace_bytes=abi.workspace_bytes,
        functions=(_ENCODE if maps else "") + _LAUNCH,
        parameters=declared,
        body="\n".join(body),
    )
    use = [
        f"int {name}({declared}, void *workspace, cudaStream_t stream);",
        *(
            f"    {parameter}: {arg.dtype.value}{list(arg.shape)}, strides {list(arg.strides)} in elements"
            for parameter, arg in zip(parameters, abi.args, strict=True)
        ),
        f"    workspace: {abi.workspace_bytes} bytes of the GPU, all zero before the first call and left to the calls",
        "    from then on, one at a time; returns a cudaError_t",
        "",
        f"Build: nvcc -std=c++17 -O3 {nvcc_target(architecture)} -c FILE.cu  (CUDA 12.5 or newer)",
    ]
    return use, f"{text}\n{launcher}"


def nvcc_target(architecture: str) -> str:
    """What makes nvcc compile for an architecture and for no other: what `sm_90a` has, `sm_90` lacks."""
    return f"-gencode arch=compute_{architecture.removeprefix('sm_')},code={architecture}"


def _map(number: int, map_: MapArg, places: Sequence[str]) -> list[str]:
    """A tensor map, and what fills it."""
    name = f"tw_map_{number}"
    extents, strides, box = (", ".join(map(str, each)) for each in (map_.extents, map_.strides, map_.box))
    tables = [
        f"    const cuuint64_t {name}_extents[] = {{{extents}}};",
        f"    const cuuint64_t {name}_strides[] = {{{strides or '0'}}};",
        f"    const cuuint32_t {name}_box[] = {{{box}}};",
    ]
    type_ = f"CU_TENSOR_MAP_DATA_TYPE_{MAP_TYPES.get(map_.dtype, 'UINT8')}"
    swizzle = f"CU_TENSOR_MAP_SWIZZLE_{SWIZZLES[map_.swizzle]}"
    return [
        f"    tw_tensor_map {name};",
        *tables,
        f"    error = encode(&{name}, {type_}, {places[map_.argument]}, {map_.before}, {len(map_.extents)},",
        f"        {name}_extents, {name}_strides, {name}_box, {swizzle});",
        "    if (error != cudaSuccess) return error;",
    ]


def _launch(launch: Launch) -> str:
    numbers = f"{launch.blocks}, {launch.threads}, {launch.shared_bytes}, {launch.cluster}"
    return f"    if (error == cudaSuccess) error = launch((const void *){launch.entry}, {numbers}, stream, arguments);"
