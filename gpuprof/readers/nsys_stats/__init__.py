"""What `nsys stats` and ``nsys profile --stats=true`` print, in each of their layouts."""
