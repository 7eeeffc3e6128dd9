#!/usr/bin/env python3
"""machine_code.py against code written here: what it counts, and that each kind of worse kernel is seen."""
import dataclasses
import unittest

import machine_code

SASS = """
		Function : _ZN5tutti7kernels4cuda41_GLOBAL__N__6d8baae2_8_rows_cu_f5f58e7c4RowsILi64EEEvNS1_8RowsArgsE
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;            /* 0x00000a00ff017b82 */
        /*0010*/                   MUFU.RCP R4, R4 ;                 /* 0x0000000400047308 */
        /*0020*/                   MOV R4, R4 ;                      /* outer loop begins */
        /*0030*/                   LDG.E.128 R8, desc[UR10][R2.64] ; /* inner loop begins */
        /*0040*/              @!P0 LDGSTS.E.BYPASS.128 [R2], desc[UR10][R2.64+0x10] ; /* 0x0000100a02207981 */
        /*0050*/                   STL.64 [R1], R8 ;                 /* 0x0000100a02207981 */
        /*0060*/               @P0 BRA 0x30 ;                        /* 0x0000100a02207981 */
        /*0070*/               @P1 BRA 0x20 ;                        /* 0x0000100a02207981 */
        /*0080*/                   LDG.E R8, desc[UR10][R2.64] ;     /* a list is followed */
        /*0090*/               @P1 BRA 0x80 ;                        /* 0x0000100a02207981 */
        /*00a0*/                   BRA 0xa0;                         /* 0x0000100a02207981 */
"""
RESOURCES = """
 Function _ZN5tutti7kernels4cuda41_GLOBAL__N__6d8baae2_8_rows_cu_f5f58e7c4RowsILi64EEEvNS1_8RowsArgsE:
  REG:94 STACK:8 SHARED:1024 LOCAL:16 CONSTANT[0]:544 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def read():
    code = machine_code.read_code(SASS.splitlines())
    resources = machine_code.read_resources(RESOURCES)
    return {machine_code.kernel_name(name): machine_code.figures_of(code[name], resources[name]) for name in code}


class MachineCodeTest(unittest.TestCase):
    def test_counts(self):
        # Four instructions fetch 2 x 16 bytes a thread, 1 KiB a warp: the outer loop holds a loop that fetches, the last fetches little.
        self.assertEqual(read(), {"Rows<64>": machine_code.Figures(
            registers=94, local=24, spills=1, shared=1024, code=round(11 * 16 / 1024, 1), divisions=1, copying=4)})

    def test_the_table_keeps_what_was_counted(self):
        self.assertEqual(machine_code.read_table(machine_code.write_table("V1.2", read())), ("V1.2", read()))

    def test_equal_or_better_is_no_complaint(self):
        better = {name: dataclasses.replace(figures, registers=80, spills=0, copying=3) for name, figures in read().items()}
        self.assertEqual(machine_code.complaints(read(), read()), [])
        self.assertEqual(machine_code.complaints(read(), better), [])

    def test_each_figure_that_is_worse_is_named(self):
        for field in dataclasses.fields(machine_code.Figures):
            worse = {name: dataclasses.replace(figures, **{field.name: 2 * getattr(figures, field.name) + 1})
                     for name, figures in read().items()}
            with self.subTest(field=field.name):
                said = machine_code.complaints(read(), worse)
                self.assertEqual(len(said), 1)
                self.assertIn(f"Rows<64>: {field.name} ", said[0])

    def test_kernels_that_came_or_went_are_named(self):
        self.assertEqual(machine_code.complaints(read(), {}), ["Rows<64>: is in the table and not in the library"])
        self.assertEqual(machine_code.complaints({}, read()), ["Rows<64>: is not in the table"])


if __name__ == "__main__":
    unittest.main()
