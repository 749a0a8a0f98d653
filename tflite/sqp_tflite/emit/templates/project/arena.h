/* The memory in which TFLM keeps the tensors of `{{ source }}`. Made by sqp-export. Do not edit. */
#ifndef {{ macro }}_ARENA_H_
#define {{ macro }}_ARENA_H_

/* {{ arena.needed }} is the smallest size with which {{ arena.runtime }} allocated and ran the model
   (found in {{ arena.trials }} trials; temporary buffers included). That was on a 64-bit machine: an upper
   bound for a 32-bit one, whose pointers are half as long, with the reference kernels. {% if arena.low is not none %}Such a
   target needs between {{ arena.low }} and {{ arena.high }}. {% endif %}Kernels made for one processor (CMSIS-NN, ESP-NN)
   may ask for scratch buffers on top: the self-test prints what was used; keep 16 above it. */
#ifndef {{ macro }}_ARENA_BYTES
#define {{ macro }}_ARENA_BYTES {{ arena.needed }}
#endif

/* The most that tensors take at one moment: {{ peak_op }} in {{ peak_layer | replace("*/", "* /") }}. */
#define {{ macro }}_PEAK_TENSOR_BYTES {{ peak_bytes }}

#endif /* {{ macro }}_ARENA_H_ */
