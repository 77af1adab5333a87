
s/device:GPU:08Stream #7(Compute,MemcpyH2D)�"������z"�"�	�gemm*��correlation_id