/* Compares the integer square root with the machine's, for every fraction of a float and both parities of its exponent.
 *
 * All other normal floats differ from these by a power of four, which both carry through unchanged. Subnormals and the
 * ends of the exponent are walked in steps. Prints the number of differences. For the host.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>

#include "sqp.h"

static unsigned long compare(uint32_t bits) {
    float v, expected, got;
    memcpy(&v, &bits, sizeof v);
    expected = sqrtf(v);
    got = sqp_sqrtf_integer(v);
    return memcmp(&expected, &got, sizeof got) != 0;
}

int main(void) {
    unsigned long differences = 0;
    uint32_t fraction, exponent;
    for (fraction = 0; fraction < 0x800000u; ++fraction) {
        differences += compare(127u << 23 | fraction) + compare(128u << 23 | fraction);
    }
    for (exponent = 0; exponent < 255; ++exponent) {
        for (fraction = 0; fraction < 0x800000u; fraction += 65521u) { differences += compare(exponent << 23 | fraction); }
        differences += compare(exponent << 23 | 0x7FFFFFu);
    }
    for (fraction = 1; fraction < 0x800000u; fraction += 61u) { differences += compare(fraction); }
    printf("%lu\n", differences);
    return 0;
}
