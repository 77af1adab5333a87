"""Reports of Nsight Systems read without nsys: file -> rows by the exporter's names -> tables."""
