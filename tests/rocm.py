"""A trace of PyTorch on ROCm made by hand, as Kineto writes it with rocprofiler-sdk and roctracer.

From libkineto's sources: calls of the host carry strings (``"stream": "0x0"``), events of the GPU
bear no place of CUDA's, and copies are named after what HIP asked for or what ROCclr did.
"""

import json

PID = 50_579
DEVICE = {
    "name": "AMD Instinct MI300X",
    "totalGlobalMem": 206_141_652_992,
    "computeMajor": 9,
    "computeMinor": 4,
}


def call(name, ts, correlation, **args):
    """A call of HIP on the host."""
    args = {"External id": 7, "cid": 108, "correlation": correlation, **args}
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": PID, "tid": PID} | {
        "ts": ts,
        "dur": 5,
        "args": args,
    }


def launch(name, ts, correlation, kernel):
    """A call that launches a kernel, with the handle of its stream as roctracer prints it."""
    sizes = {"grid": [4, 1, 1], "block": [256, 1, 1], "shared memory": 0}
    return call(name, ts, correlation, kernel=kernel, stream="0x0", **sizes)


def copy_call(name, ts, correlation, size, kind):
    """A call that copies: bytes and hipMemcpyKind are strings."""
    pointers = {"src": "0x7f8a4c000000", "dst": "0x7f8a5d600000"}
    return call(name, ts, correlation, **pointers, bytes=str(size), kind=str(kind))


def work(category, name, ts, dur, correlation, **args):
    """What ran on a GPU: its pid is the device, its tid the queue."""
    args = {"External id": 7, "device": 0, "stream": 3, "correlation": correlation, **args}
    return {"ph": "X", "cat": category, "name": name, "pid": args["device"], "tid": 3} | {
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def kernel(name, ts, dur, correlation, **args):
    sizes = {"grid": [4, 1, 1], "block": [256, 1, 1]}
    return work("kernel", name, ts, dur, correlation, kind="Dispatch Kernel", **sizes | args)


EVENTS = (
    launch("hipLaunchKernel", 100, 1, "gemm"),
    kernel("Cijk_Ailk_Bljk_SB_MT64x64x16", 200, 40, 1),
    launch("hipExtModuleLaunchKernel", 110, 2, "reduce"),
    kernel("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", 250, 60, 2),
    copy_call("hipMemcpyAsync", 120, 3, 9_216, 1),
    work("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 320, 10, 3, kind="HtoD", bytes=9_216),
    copy_call("hipMemcpyWithStream", 130, 4, 4_096, 2),
    work("gpu_memcpy", "Memcpy DtoH (Device -> Host)", 340, 8, 4, kind="DtoH", bytes=4_096),
    # Of pinned memory, which is a device's to roctracer.
    copy_call("hipMemcpyAsync", 140, 5, 1_024, 1),
    work("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 360, 6, 5, kind="DtoD", bytes=1_024),
    copy_call("hipMemcpyAsync", 150, 6, 2_048, 3),
    work("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 370, 5, 6, kind="DtoD", bytes=2_048),
    # By a kernel where no engine copies or fills.
    copy_call("hipMemcpyAsync", 160, 7, 512, 3),
    kernel("__amd_rocclr_copyBuffer", 380, 4, 7, bytes=512),
    call("hipMemsetAsync", 165, 8),
    kernel("__amd_rocclr_fillBufferAligned", 390, 3, 8),
    call("hipMemsetAsync", 170, 9),
    work("gpu_memset", "Memset (Device)", 395, 2, 9, kind="Device"),
    call("hipMalloc", 175, 10, size=1_000, ptr="0x7f8a4c000000"),
    call("hipDeviceSynchronize", 180, 11),
)


def trace(*events, devices=1, **top):
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": number, **DEVICE} for number in range(devices)],
        "roctracer_version": 401,
        "hip_runtime_version": 60_140_092,
    }
    return {**head, **top, "traceEvents": list(events)}


def written(folder, *events, **top):
    path = folder / "rocm.pt.trace.json"
    path.write_text(json.dumps(trace(*(events or EVENTS), **top)), encoding="utf-8")
    return path
