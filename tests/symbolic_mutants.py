"""Faults that the proofs of `symbolic` have to refute, at least one for each: else a proof may say nothing."""

from symbolic import Mutant

MUTANTS = [
    # a tie goes down
    Mutant(
        "Float32.Rounded",
        "Float32.sol",
        "add(sub(shl(sub(n, 1), 1), 1), and(shr(n, m), 1))",
        "sub(shl(sub(n, 1), 1), 1)",
    ),
    Mutant("Float32.Add_OfWhatIsNotFinite", "Float32.sol", "(y == INFINITY && a != b)", "(y == INFINITY)"),
    Mutant("Float32.Multiply_OfWhatIsNotFinite", "Float32.sol", "|| x == 0 || y == 0 ? NAN", "|| x == 0 ? NAN"),
    Mutant("Float32.FusedMultiplyAdd_OfWhatIsNotFinite", "Float32.sol", "return z > INFINITY ? NAN : c;", "return c;"),
    Mutant("Float32.Divide_OfZeroAndInfinity", "Float32.sol", "(x == 0 || x == INFINITY))", "x == 0)"),
    Mutant("Float32.Truncate", "Float32.sol", "if (exponent < 150)", "if (exponent < 149)"),
    Mutant("Float32.Log2", "Float32.sol", "lt(0xff, shr(n, x))", "lt(0x7f, shr(n, x))"),
    Mutant("Half.Widen_Float16", "Half.sol", "(112 - up)", "(113 - up)"),
    Mutant("Half.Widen_Bfloat16", "Half.sol", "return a << 16;", "return a << 16 & Float32.MAGNITUDE;"),
    # what rounds up to the smallest number vanishes
    Mutant("Half.Narrow_Float16", "Half.sol", "lt(down, 26)", "lt(down, 24)"),
    Mutant("Half.Narrow_Bfloat16", "Half.sol", "0x7FFF + (a >> 16 & 1)", "0x8000"),
    Mutant("Half.FromInteger_Float32", "Convert.sol", "(1 << (down - 1)) - 1 + (a >> down & 1)", "(1 << (down - 1))"),
    Mutant("Half.FromInteger_Float16", "Convert.sol", "sign << 31 | a);", "a);"),
    Mutant("Half.FromInteger_Bfloat16", "Convert.sol", "DTypes.BFLOAT16 ? 7 : 23", "DTypes.BFLOAT16 ? 8 : 23"),
    Mutant("Half.FromInteger_Uint64", "Convert.sol", "a <<= 32;", "a <<= 22;"),
    Mutant("Half.ToInteger_Signed", "Convert.sol", "value < low ? low", "value < low ? low + 1"),
    Mutant("Half.ToInteger_Unsigned", "Convert.sol", "if (exponent < 127) return 0;", "if (exponent < 128) return 0;"),
    Mutant("Integers.Wrap", "Integers.sol", "lt(sub(dtype, 2), 4)", "lt(sub(dtype, 2), 3)"),
    Mutant("Integers.Sum_Difference_Product", "Integers.sol", "wrap(dtype, a * b)", "a * b"),
    Mutant("Integers.Divide", "Integers.sol", "a - divide(dtype, a, b) * b", "a - floorDivide(dtype, a, b) * b"),
    Mutant("Integers.FloorDivide", "Integers.sol", "slt(xor(a, b), 0)", "slt(a, 0)"),
    Mutant("Integers.Shifts", "Integers.sol", "uint256(int256(a) >> b)", "a >> b"),
    Mutant("Integers.Order", "Integers.sol", "return less(a, b) ? b : a;", "return a < b ? b : a;"),
    Mutant("Integers.Limits", "Integers.sol", "+ int256(1 << bits) - 1", "+ int256(1 << bits)"),
    Mutant("Merkle.TreeRoot", "Merkle.sol", "node(last, zero)", "node(zero, last)"),
    Mutant("Merkle.AnOpeningIsTheLeaf", "Merkle.sol", "let right := and(index, 1)", "let right := 0"),
    Mutant("Merkle.HigherBitsOfAnIndexAreNotRead", "Merkle.sol", "and(index, 1)", "iszero(iszero(index))"),
    Mutant("Merkle.RootsAreOfWholeNumbers", "Merkle.sol", "uint64(elements)", "uint64(uint32(elements))"),
    Mutant("Merkle.ALeafIsTheHashOfItsBytes", "Merkle.sol", "add(add(data, 32), at), 1024)", "add(data, 32), 1024)"),
    Mutant("Merkle.OnlyWhoIsInTheListIsAdmitted", "Merkle.sol", "return index < count && ", "return "),
    Mutant(
        "Bytes.Little",
        "Records.sol",
        "shr(16, and(value, 0xFFFF0000FFFF0000))",
        "shr(16, and(value, 0xFFFF000000000000))",
    ),
    Mutant(
        "Bytes.BeyondTheEndNothingIsRead",
        "Reader.sol",
        "if (from.at > from.data.length)",
        "if (start > from.data.length)",
    ),
    Mutant("Bytes.Reader", "Reader.sol", "from.at = start + size;", "from.at = start + (size + 1) / 2 * 2;"),
    Mutant("Bytes.IsCanonical", "Patterns.sol", "pattern >> width != 0", "pattern >> width > 1"),
    Mutant("Bytes.Unpack", "Patterns.sol", "            at += bytes_;", "            at += 4;"),
    Mutant(
        "Bytes.Instruction",
        "Records.sol",
        "c := or(byte(6, word), shl(8, byte(7, word)))",
        "c := or(byte(6, word), shl(8, byte(5, word)))",
    ),
]
