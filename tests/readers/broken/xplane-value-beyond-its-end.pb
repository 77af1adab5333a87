
e/device:GPU:0*Stream #7(Compute)è"–"–*@a"–	–gemm*––correlation_id