"""Makes a target of higher precision (or any other type) from a quantized model, with llama.cpp's own quantizer.

    python scripts/make_f16_target.py [--model default] [--type F16] [--out FILE]
    python scripts/make_f16_target.py --model MODEL --type IQ4_NL --whole      the draft to go with it

An F16 copy of a 4-bit model knows no more than the 4-bit model does, but costs what an F16 model costs: it is made
for measuring. Prints the path of the file; one that is already there is kept.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nsd_local.catalog import home, resolve
from nsd_local.errors import NsdError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default", help="catalog name, GGUF path, or hf-repo:quant")
    parser.add_argument("--type", default="F16", help="F16, BF16, Q8_0, ...")
    parser.add_argument("--whole", action="store_true", help="the output matrix too: for drafts")
    parser.add_argument("--out", type=Path, help="where to write it (a file in nsd-local's cache folder)")
    given = parser.parse_args()
    try:
        from nsd_local.engine.quantize import quantize

        source = resolve(given.model).path
        out = given.out or home() / "measure" / f"{source.stem}-{given.type.lower()}.gguf"
        if not out.exists():
            print(f"writing {out}", file=sys.stderr)
            quantize(source, out, given.type, whole=given.whole)
    except NsdError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
