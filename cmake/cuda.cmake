# nvcc 13, on the path or where the toolkit installs it.
find_program(GLINT_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT GLINT_NVCC)
  message(FATAL_ERROR "GLINT_CUDA=ON needs nvcc 13: install the CUDA toolkit, or configure another preset")
endif()
set(CMAKE_CUDA_COMPILER ${GLINT_NVCC})
set(CMAKE_CUDA_ARCHITECTURES 90a)  # H100, H200
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc speaks C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
target_compile_options(glint_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Werror=all-warnings -Xcompiler=-Wall,-Wextra>)
