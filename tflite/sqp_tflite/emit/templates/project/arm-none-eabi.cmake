# A toolchain for Cortex-M: gcc for arm-none-eabi. Made by sqp-export.
#
# CPU_FLAGS for some cores; TFLM's library must be built for the same one (TARGET_ARCH of its make):
#   Cortex-M0+  -mcpu=cortex-m0plus -mthumb
#   Cortex-M3   -mcpu=cortex-m3 -mthumb
#   Cortex-M4F  -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard
#   Cortex-M7   -mcpu=cortex-m7 -mthumb -mfpu=fpv5-d16 -mfloat-abi=hard
#   Cortex-M33  -mcpu=cortex-m33 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard
#   Cortex-M55  -mcpu=cortex-m55 -mthumb -mfloat-abi=hard
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CPU_FLAGS "-mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard" CACHE STRING "Flags of the core")
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_C_FLAGS_INIT "${CPU_FLAGS}")
set(CMAKE_CXX_FLAGS_INIT "${CPU_FLAGS}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${CPU_FLAGS} --specs=nano.specs")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CPU_FLAGS)
