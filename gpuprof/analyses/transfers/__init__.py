"""What moving data costs: by kind, pair of devices, size, link and tensor."""
