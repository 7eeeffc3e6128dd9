#!/usr/bin/env python3
"""All attacks on the gateway at once, for a moment: gateway_attacks.py does it for longer, by hand, and measures."""
import unittest

import gateway_attacks

ATTACKED_S, ORDINARY_S = 10, 3


class AllAtOnce(unittest.TestCase):
    def test_innocents_are_answered_and_memory_goes_back(self):
        found = gateway_attacks.measure(ATTACKED_S, ORDINARY_S)
        self.assertEqual(found["failures"], [])
        self.assertLess(found["left"], gateway_attacks.LEFT_MAX)


if __name__ == "__main__":
    unittest.main(verbosity=2)
