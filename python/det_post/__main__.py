"""``python -m det_post`` is the program ``det_post``, with an installed ONNX Runtime."""

from ._program import main

main()
