"""XPlane profiles of TensorFlow and JAX, of CUDA and of ROCm."""
