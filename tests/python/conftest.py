"""Property tests print how to repeat a failure and take as long as they take."""

import hypothesis

from fixtures import generator, products  # noqa: F401
from smollm2 import stock_smollm2  # noqa: F401

hypothesis.settings.register_profile("coda", deadline=None, print_blob=True)
hypothesis.settings.load_profile("coda")
