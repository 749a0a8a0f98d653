"""The small C functions that generated code calls, each with those that it needs itself. `@` stands for the prefix.

Shifts of negative numbers to the right keep the sign: every C compiler for the targets does so, and the generated file
refuses to compile where it is not so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_HIGH = """\
/* (a * m + 2^30) >> 31: the doubling high product, rounded. m >= 0. */
static inline int32_t @_high(int32_t a, int32_t m)
{
    return (int32_t)(((int64_t)a * m + 0x40000000) >> 31);
}
"""

_HIGH_SMALL = """\
/* (a * m + 2^30) >> 31 for |a| < 2^30, m >= 0. */
static inline int32_t @_high_small(int32_t a, int32_t m)
{
#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && (defined(__thumb2__) || !defined(__thumb__)) \\
    && !defined(@M_PORTABLE)
    int32_t high;
    __asm__("smmulr %0, %1, %2" : "=r"(high) : "r"(a * 2), "r"(m));
    return high;
#elif (defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)) && !defined(@M_PORTABLE)
    /* No product of 64 bits: four of 16. */
    const int32_t ah = (a * 2) >> 16, mh = m >> 16;
    const int32_t al = (a * 2) & 0xFFFF, ml = m & 0xFFFF;
    const int32_t middle = ah * ml + (int32_t)(((uint32_t)al * (uint32_t)ml) >> 16);
    const int32_t rest = al * mh + (middle & 0xFFFF);
    return ah * mh + (middle >> 16) + (int32_t)(((uint32_t)rest + 0x8000u) >> 16);
#else
    return (int32_t)(((int64_t)(a * 2) * m + INT64_C(0x80000000)) >> 32);
#endif
}
"""

_ROUND_SHIFT = """\
/* x / 2^e for e >= 1, to the nearest, half away from zero, plus z; `e1` is e - 1 and `z2` is 2 z + 1. */
static inline int32_t @_shift(int32_t x, int32_t e1, int32_t z2)
{
    return (((x + (x >> 31)) >> e1) + z2) >> 1;
}
"""

_ANY = """\
/* a * m * 2^(s - 31), rounded twice, for any shift s. */
static inline int32_t @_scale(int32_t a, int32_t m, int32_t s)
{
    const int32_t high = @_high((int32_t)((uint32_t)a << (s > 0 ? s : 0)), m);
    return s >= 0 ? high : (int32_t)(((int64_t)high + (high >> 31) + ((int64_t)1 << (-s - 1))) >> -s);
}
"""

_CLIP = """\
static inline int32_t @_clip(int32_t x, int32_t low, int32_t high)
{
    return x < low ? low : x > high ? high : x;
}
"""

_CLIP8 = """\
/* Within the codes of int8. */
static inline int32_t @_clip8(int32_t x)
{
#if defined(__ARM_FEATURE_SAT) && defined(__GNUC__) && !defined(@M_PORTABLE)
    int32_t code;
    __asm__("ssat %0, #8, %1" : "=r"(code) : "r"(x));
    return code;
#else
    return x < -128 ? -128 : x > 127 ? 127 : x;
#endif
}
"""

_DSP = """\
#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && !defined(@M_PORTABLE)
#define @M_DSP 1
/* Four codes at once: bytes 0 and 2, bytes 1 and 3, and two products of 16 bits added to a sum. */
typedef uint32_t __attribute__((may_alias, aligned(1))) @_word;
static inline uint32_t @_even(uint32_t x)
{
    uint32_t pair;
    __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(x));
    return pair;
}
static inline uint32_t @_odd(uint32_t x)
{
    uint32_t pair;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(x));
    return pair;
}
static inline int32_t @_two(uint32_t a, uint32_t b, int32_t sum)
{
    __asm__("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}
#else
#define @M_DSP 0
#endif
"""

_ROUND = """\
/* The nearest integer, half away from zero; |x| must be below 2^30. */
static inline int32_t @_round(float x)
{
    const int32_t whole = (int32_t)x;
    const float rest = x - (float)whole;
    return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}
"""

_CLIPPED = """\
/* The nearest integer within limits; `outside` for NaN. */
static inline int32_t @_to_code(float x, float low, float high)
{
    return !(x > low) ? (int32_t)low : x > high ? (int32_t)high : @_round(x);
}
"""

_SQRT = """\
/* The square root, correctly rounded, without libm: an instruction where the core has one, else digit by digit. */
static inline float @_sqrt(float x)
{
#if defined(__ARM_FP) && (__ARM_FP & 4) && defined(__GNUC__) && !defined(@M_PORTABLE)
    float root;
    __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
    return root;
#elif defined(__SSE2__) && defined(__GNUC__) && !defined(@M_PORTABLE)
    float root;
    __asm__("sqrtss %1, %0" : "=x"(root) : "x"(x));
    return root;
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(@M_PORTABLE)
    float root;
    __asm__("fsqrt %s0, %s1" : "=w"(root) : "w"(x));
    return root;
#elif defined(__riscv_flen) && defined(__GNUC__) && !defined(@M_PORTABLE)
    float root;
    __asm__("fsqrt.s %0, %1" : "=f"(root) : "f"(x));
    return root;
#else
    union { float value; uint32_t bits; } as;
    uint32_t rest, root = 0, bit;
    int32_t exponent;
    as.value = x;
    if (!(x > 0.0f)) return x == 0.0f ? x : (as.bits = 0x7FC00000u, as.value);
    if (as.bits >= 0x7F800000u) return x;
    exponent = (int32_t)(as.bits >> 23);
    rest = as.bits & 0x7FFFFFu;
    if (exponent == 0) {
        exponent = 1;
        while (rest < 0x800000u) { rest <<= 1; exponent--; }
    }
    rest |= 0x800000u;
    exponent -= 127;
    if (exponent & 1) rest <<= 1;
    rest <<= 1;
    for (bit = 0x1000000u; bit != 0; bit >>= 1) {
        const uint32_t tried = root + bit;
        if (tried <= rest) { root = tried + bit; rest -= tried; }
        rest <<= 1;
    }
    root >>= 1;
    root += root & 1u;
    as.bits = (root >> 1) + ((uint32_t)((exponent >> 1) + 126) << 23);
    return as.value;
#endif
}
"""

_RSQRT = """\
static inline int32_t @_times_two_to(int32_t x, int32_t s)
{
    const int64_t wide = (int64_t)x * ((int64_t)1 << s);
    return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

/* 1 / sqrt(a) in fixed point by five Newton steps, times m * 2^(s - 31). a > 0. */
static int32_t @_rsqrt(int32_t a, int32_t m, int32_t s)
{
    int32_t root = INT32_MAX, shift = 0, step, half, kept;
    if (a > 1) {
        shift = 11;
        while (a >= ((int32_t)1 << 29)) { a /= 4; shift++; }
        while (a < ((int32_t)1 << 27)) { a *= 4; shift--; }
        half = ((a >> 1) + 1) >> 1;
        root = (int32_t)1 << 28;
        for (step = 0; step < 5; step++) {
            const int32_t cubed = @_times_two_to(@_high(@_high(root, root), root), 6);
            root = @_times_two_to(@_high(root, 402653184) - @_high(half, cubed), 3);
        }
        root = @_high(root, 1518500250);
        if (shift < 0) { root = (int32_t)((uint32_t)root << -shift); shift = 0; }
    }
    kept = @_scale(1, root, 20 - shift);
    return @_scale(kept, m, s - 20);
}
"""

HELPERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "high": (_HIGH, ()),
    "high_small": (_HIGH_SMALL, ()),
    "shift": (_ROUND_SHIFT, ()),
    "scale": (_ANY, ("high",)),
    "clip": (_CLIP, ()),
    "clip8": (_CLIP8, ()),
    "dsp": (_DSP, ()),
    "round": (_ROUND, ()),
    "to_code": (_CLIPPED, ("round",)),
    "sqrt": (_SQRT, ()),
    "rsqrt": (_RSQRT, ("high", "scale")),
}
"""The text of each function, and the functions that it calls."""


def texts(wanted: Iterable[str], prefix: str) -> list[str]:
    """Returns the functions, and those that they need, in an order in which C accepts them.

    Args:
        wanted: Names in `HELPERS`.
        prefix: What their names in C begin with.
    """
    needed: set[str] = set()
    stack = list(wanted)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += HELPERS[name][1]
    return [HELPERS[name][0].replace("@M", prefix.upper()).replace("@", prefix) for name in HELPERS if name in needed]
