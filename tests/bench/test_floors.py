#!/usr/bin/env python3
"""The share of Winograd's products in bench/floors.py, for the texts that winograd_form_text (ops/cpu/product/winograd_plan.c) writes. usage: test_floors.py ROOT"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.argv[1], "bench"))
import floors  # noqa: E402

# products and pixels times taps of the largest tile, by winograd.h: 6 + 2 positions for 6 pixels, 2 x 5 + 1 for 5 pixels of stride 2
SHARES = {"winograd 6x6": 64 / 324, "winograd 4x4, stored": 36 / 144, "winograd 6,4x4,2": 8 * 6 / (18 * 12), "winograd 2x4, fixed point": 4 * 6 / (6 * 12), "winograd 4x4, dilation 12x12": 36 / 144,
          "winograd 5x5": 121 / 225, "winograd 3x5,3, stored": 7 * 11 / (9 * 15), "winograd 5x6": 11 * 8 / (15 * 18), "winograd of lines 6": 8 / 18, "winograd of lines 6,4,2, dilation 25": 8 / 18,
          "winograd of lines 5": 11 / 15}
wrong = {variant: floors.share_of_products(variant) for variant, share in SHARES.items() if abs(floors.share_of_products(variant) - share) > 1e-12}
sys.exit(f"wrong shares: {wrong}" if wrong else 0)
