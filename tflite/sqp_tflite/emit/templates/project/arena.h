/* The memory in which TFLM keeps the tensors of `{{ source }}`. Made by sqp-export. Do not edit. */
#ifndef {{ macro }}_ARENA_H_
#define {{ macro }}_ARENA_H_

/* {{ arena.needed }} is the smallest size with which {{ arena.runtime }} allocated and ran the model
   (found in {{ arena.trials }} trials; temporary buffers included). It was measured on a 64-bit machine
   with the reference kernels, and is an upper bound for a 32-bit target, whose pointers are half as long{% if arena.low is not none %};
   such a target needs between {{ arena.low }} and {{ arena.high }}{% endif %}. Optimised kernels (CMSIS-NN, ESP-NN) may need more,
   for scratch buffers: the self-test prints what was used; keep 16 bytes above that. */
#ifndef {{ macro }}_ARENA_BYTES
#define {{ macro }}_ARENA_BYTES {{ arena.needed }}
#endif

/* The size of all tensors at the memory peak: {{ peak_op }} in {{ peak_comment }}. */
#define {{ macro }}_PEAK_TENSOR_BYTES {{ peak_bytes }}

#endif /* {{ macro }}_ARENA_H_ */
