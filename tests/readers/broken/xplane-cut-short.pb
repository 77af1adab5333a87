
s/device:GPU:08Stream #7(Compute,MemcpyH2D)è"–