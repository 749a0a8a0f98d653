# Made by sqp-export.
if(CONFIG_TENSORFLOW_LITE_MICRO)
  zephyr_library_named({{ prefix }})
  zephyr_library_sources(
    ../{{ prefix }}_data.c
    ../{{ prefix }}_golden.c
    ../{{ prefix }}_runner.cc
    ../{{ prefix }}_self_test.cc)
  zephyr_include_directories(..)
endif()
