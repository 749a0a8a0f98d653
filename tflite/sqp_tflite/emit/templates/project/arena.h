/* The memory in which TFLM keeps the tensors of `{{ source }}`. Made by sqp-export. Do not edit. */
#ifndef {{ macro }}_ARENA_H_
#define {{ macro }}_ARENA_H_

#include <stdint.h>

{% if report.npu %}
/* {{ arena.needed }} was calculated, not measured: what {{ report.npu.compiler }} has planned for {{ report.npu.accelerator }}, and
   what {{ arena.runtime }} keeps for the model before it was compiled.
{% else %}
/* {{ arena.needed }} is the smallest size with which {{ arena.runtime }} allocated and ran the model
   (temporary buffers included). It was measured on a 64-bit machine with the reference kernels.
{% endif %}
{% if arena.high is not none %}
   A 32-bit target, whose pointers are half as long, needs between {{ arena.low }} and {{ arena.high }}: {{ arena.high }} suffices.
{% else %}
   It is an upper bound for a 32-bit target, whose pointers are half as long.
{% endif %}
   Optimised kernels (CMSIS-NN, ESP-NN) may need more, for scratch buffers: if {{ prefix }}_prepare returns
   {{ macro }}_SMALL_ARENA, define a larger size. The smallest one on your target is found by building the self-test with
   {{ macro }}_FIND_ARENA; what {{ prefix }}_arena_used returns is less than what allocation needs. */
#ifndef {{ macro }}_ARENA_BYTES
{% if arena.high is not none %}
#if UINTPTR_MAX <= 0xFFFFFFFFu
#define {{ macro }}_ARENA_BYTES {{ arena.high }}
#else
#define {{ macro }}_ARENA_BYTES {{ arena.needed }}
#endif
{% else %}
#define {{ macro }}_ARENA_BYTES {{ arena.needed }}
{% endif %}
#endif

/* In front of the runner's own arena: a linker section, e.g. __attribute__((section(".dtcm"))). With {{ macro }}_NO_ARENA the
   runner has no arena of its own: call {{ prefix }}_prepare_in. */
#ifndef {{ macro }}_ARENA_ATTRIBUTE
#define {{ macro }}_ARENA_ATTRIBUTE
#endif

/* The size of all tensors at the memory peak: {{ peak_op }} in {{ peak_comment }}. */
#define {{ macro }}_PEAK_TENSOR_BYTES {{ peak_bytes }}

#endif /* {{ macro }}_ARENA_H_ */
