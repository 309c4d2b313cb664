# nvcc 13: what tools/setup.sh brings where there is no other, on the path, or where the toolkit installs it.
find_program(GLINT_NVCC nvcc HINTS ${PROJECT_SOURCE_DIR}/build/deps/cuda-13.0 ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT GLINT_NVCC)
  message(FATAL_ERROR "GLINT_CUDA=ON needs nvcc 13: run tools/setup.sh cuda, or configure another preset")
endif()
set(CMAKE_CUDA_COMPILER ${GLINT_NVCC})
# 90a: H100 and H200, whose kernels are measured. Others from 80 on compile too, "80;90a;120" for several at once
# (tools/build_all_archs.sh). A device without code for it is refused at start: no code is compiled there.
set(GLINT_CUDA_TARGETS 90a CACHE STRING "architectures to compile kernels for, as nvcc counts them")
if("90" IN_LIST GLINT_CUDA_TARGETS)
  message(FATAL_ERROR "GLINT_CUDA_TARGETS has 90, which lacks instructions that kernels for 9.0 use: write 90a")
endif()
set(CMAKE_CUDA_ARCHITECTURES OFF)
enable_language(CUDA)
if(NOT TARGET CUDA::nvToolsExt)  # CMake 3.25 fails without it, and CUDA 13 has none
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
find_package(CUDAToolkit 13 REQUIRED)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc speaks C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
target_compile_options(glint_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Werror=all-warnings -Xcompiler=-Wall,-Wextra>)
foreach(target ${GLINT_CUDA_TARGETS})
  target_compile_options(glint_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--generate-code=arch=compute_${target},code=sm_${target}>)
endforeach()
