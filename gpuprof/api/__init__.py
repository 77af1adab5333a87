"""What `import gpuprof` offers: the commands as functions that return objects for notebooks.

    arguments -> readers, analyses, comparisons, launch, sweeps -> result objects -> render

One file per function, with the object that it returns. The functions take what the commands
take, under the commands' words.
"""
