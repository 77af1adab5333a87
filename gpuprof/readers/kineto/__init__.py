"""PyTorch's profiler (Kineto): JSON traces of CUDA and of ROCm."""
