"""nvprof: databases, summaries and traces, as text and as CSV."""
