"""A real model on real text: stock transformers and coda side by side. Run it with `python -m coda_cpp.demo`."""
