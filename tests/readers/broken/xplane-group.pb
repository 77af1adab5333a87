
_/device:GPU:0$Stream #7(Compute)è"	–#"–	–gemm*––correlation_id