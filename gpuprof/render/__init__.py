"""Tables -> text, files and charts: each output is one file and one line in `RENDERERS`."""
