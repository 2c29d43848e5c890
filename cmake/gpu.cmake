# gpu.cmake - the modules that know a GPU. A file that is in src/backend/gpu/ is in all of them, unless its name says
# otherwise: *_emulated.cu and emulate.cc are the emulated ones', *_vendor.cu both vendors', *_cuda.cu and *_hip.cu one's.
#
#   TX_GPU=none        the emulated ones only, for tests
#   TX_GPU=cuda, hip   libtriax_cuda.so by nvcc; libtriax_hip.so by ROCm's clang or Debian's; both: "cuda;hip"
#   TX_GPU=auto        those whose compilers are found
set(TX_GPU none CACHE STRING "GPUs to build modules for: none, cuda, hip, \"cuda;hip\", auto")
set(TX_CUDA_ARCHS 80 90 CACHE STRING "NVIDIA's architectures; a newer GPU compiles the newest of them for itself")
set(TX_HIP_ARCHS gfx90a gfx942 gfx1100 CACHE STRING "AMD's architectures")

file(GLOB gpu_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/gpu/*.cu)
set(gpu_common ${PROJECT_SOURCE_DIR}/src/backend/tensor.c)

# ---- emulated: g++ takes *.cu as C++, by way of a file that includes it ----

function(tx_emulated_options target warp)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE TX_GPU_EMULATED=${warp} TX_VERSION="${PROJECT_VERSION}"
                             TX_GPU_KIND="emulated" TX_GPU_VISIBLE="TX_GPU_EMULATED_COUNT"
                             $<$<AND:$<BOOL:${TX_SANITIZE}>,$<CXX_COMPILER_ID:Clang>>:__SANITIZE_ADDRESS__=1>)
  # coverage: kernels run on one thread each, and count a lot
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unknown-pragmas -O2 -g1 -ffp-contract=off
                         -ffunction-sections $<$<BOOL:${TX_WERROR}>:-Werror> "$<$<BOOL:${TX_SANITIZE}>:${sanitize_kernels}>"
                         ${coverage_flags} $<$<BOOL:${TX_COVERAGE}>:-fprofile-update=single>)
  target_link_options(${target} PRIVATE -Wl,--gc-sections $<$<BOOL:${TX_COVERAGE}>:-fprofile-instr-generate>
                      $<$<BOOL:${TX_SANITIZE}>:-fsanitize=address,undefined>
                      $<$<NOT:$<BOOL:${TX_SANITIZE}>>:-Wl,-z,defs>)
  set_target_properties(${target} PROPERTIES CXX_STANDARD 17 CXX_EXTENSIONS ON CXX_VISIBILITY_PRESET hidden)
endfunction()

# Behind the warp: names of files of a vendor's, which take the place of the emulated ones of the same name. What modules of
# a warp have in common is compiled once.
function(tx_add_emulated target warp)
  set(common ${PROJECT_SOURCE_DIR}/src/backend/gpu/emulate.cc ${gpu_common})
  set(own "")
  foreach(source ${gpu_sources})
    get_filename_component(name ${source} NAME_WE)
    if(name MATCHES "_(cuda|hip|vendor)$" AND NOT name IN_LIST ARGN)
      continue()
    endif()
    string(REGEX REPLACE "_emulated$" "_vendor" other ${name})
    if(NOT other STREQUAL name AND other IN_LIST ARGN)
      continue()
    endif()
    set(file ${PROJECT_BINARY_DIR}/emulated/${name}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "#include \"backend/gpu/${name}.cu\"\n" @ONLY)
    if(name MATCHES "_(emulated|vendor)$")
      list(APPEND own ${file})
    else()
      list(APPEND common ${file})
    endif()
  endforeach()
  if(NOT TARGET emulated${warp}_objects)
    add_library(emulated${warp}_objects OBJECT ${common})
    tx_emulated_options(emulated${warp}_objects ${warp})
  endif()
  add_library(${target} MODULE ${own} $<TARGET_OBJECTS:emulated${warp}_objects>)
  tx_emulated_options(${target} ${warp})
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()

# ---- a vendor's: a command per file, because CMake's own language HIP knows AMD's packages only, and CUDA is alike ----

# @others: what is in the names of files that are not this vendor's   @compile: the compiler with its options
function(tx_add_vendor target others)
  set(objects "")
  foreach(source ${gpu_sources})
    get_filename_component(name ${source} NAME_WE)
    if(name MATCHES "_(emulated|${others})$")
      continue()
    endif()
    set(object ${PROJECT_BINARY_DIR}/${target}/${name}.o)
    add_custom_command(OUTPUT ${object} DEPFILE ${object}.d DEPENDS ${source} VERBATIM COMMAND_EXPAND_LISTS
                       COMMENT "Building ${target}: ${name}.cu"
                       COMMAND ${ARGN} -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object})
    list(APPEND objects ${object})
  endforeach()
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/${target})
  add_library(${target} MODULE ${gpu_common} ${objects})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE TX_VERSION="${PROJECT_VERSION}")
  target_compile_options(${target} PRIVATE -ffunction-sections)
  target_link_options(${target} PRIVATE -Wl,--gc-sections -Wl,-z,defs)
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/triax)
endfunction()

# gfx1100, whose tiles are loops that are unrolled, takes three minutes of a processor with any optimization and four seconds
# without; CUDA a third with -O1.
option(TX_GPU_QUICK "compile device code for a look at whether it compiles and links, not to be run" OFF)
if(TX_GPU_QUICK)
  set(gpu_optimize_cuda -O1 -Xcicc=-O1 -Xptxas=-O1)
  set(gpu_optimize_hip -O0)
else()
  set(gpu_optimize_cuda -O3)
  set(gpu_optimize_hip -O3)
endif()
set(gpu_flags -std=c++17 -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include -D_GNU_SOURCE
    -DTX_VERSION="${PROJECT_VERSION}")

# The runtime is part of the module; it looks for the driver at the first call, so that the module loads without one.
function(tx_add_cuda)
  get_filename_component(bin ${TX_NVCC} REALPATH)
  get_filename_component(bin ${bin} DIRECTORY)
  find_library(TX_CUDART cudart_static HINTS ${bin}/.. PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib
               targets/sbsa-linux/lib)
  if(NOT TX_CUDART)
    message(FATAL_ERROR "TX_GPU=cuda: there is no libcudart_static.a near ${TX_NVCC}; say where it is: -DTX_CUDART=FILE")
  endif()
  foreach(arch ${TX_CUDA_ARCHS})
    list(APPEND code -gencode=arch=compute_${arch},code=sm_${arch})
    set(newest ${arch})
  endforeach()
  tx_add_vendor(triax_cuda emulated|hip ${TX_NVCC} ${code} -gencode=arch=compute_${newest},code=compute_${newest}
                ${gpu_optimize_cuda} ${gpu_flags} -DTX_GPU_KIND="CUDA" -DTX_GPU_VISIBLE="CUDA_VISIBLE_DEVICES" -lineinfo
                -Xcompiler=-fPIC,-fvisibility=hidden,-ffunction-sections,-Wall,-Wextra,-Wno-unused-function
                $<$<BOOL:${TX_WERROR}>:-Werror=all-warnings>)
  target_link_libraries(triax_cuda PRIVATE ${TX_CUDART} rt)
endfunction()

# clang++ of ROCm, or of Debian: there clang 19 knows all GPUs, and the device's libraries (HIP 5.2) lack a constant for
# each GPU that came later.
function(tx_add_hip)
  set(options "")
  if(TX_ROCM)
    list(APPEND options --rocm-path=${TX_ROCM} --hip-path=${TX_ROCM})
    find_library(TX_AMDHIP amdhip64 HINTS ${TX_ROCM}/lib)
  else()
    find_path(device_libs ockl.bc PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/amdgcn/bitcode
              /usr/lib/x86_64-linux-gnu/amdgcn/bitcode NO_DEFAULT_PATH NO_CACHE)
    find_library(TX_AMDHIP amdhip64)
    if(NOT device_libs OR NOT TX_AMDHIP)
      message(FATAL_ERROR "TX_GPU=hip: HIP's libraries are missing: apt-get install libamdhip64-dev rocm-device-libs")
    endif()
    tx_device_libs(${device_libs} ${PROJECT_BINARY_DIR}/triax_hip/bitcode)
    list(APPEND options --rocm-path=/usr --hip-path=/usr
         --rocm-device-lib-path=${PROJECT_BINARY_DIR}/triax_hip/bitcode)
  endif()
  foreach(arch ${TX_HIP_ARCHS})
    list(APPEND options --offload-arch=${arch})
  endforeach()
  tx_add_vendor(triax_hip emulated|cuda ${TX_HIPCXX} -x hip ${options} ${gpu_optimize_hip} ${gpu_flags} -DTX_GPU_KIND="HIP"
                -DTX_GPU_VISIBLE="HIP_VISIBLE_DEVICES" -D__HIP_PLATFORM_AMD__ -fPIC -fvisibility=hidden
                -ffunction-sections -Wall -Wextra -Wno-unused-function -Wno-unused-result -Wno-pass-failed
                $<$<BOOL:${TX_WERROR}>:-Werror>)
  target_link_libraries(triax_hip PRIVATE ${TX_AMDHIP})
endfunction()

# Links to what is there, and the missing oclc_isa_version_*.bc, whose number is gfx942's 9 4 2 as 9402.
function(tx_device_libs from to)
  file(MAKE_DIRECTORY ${to})
  file(GLOB there ${from}/*.bc)
  foreach(file ${there})
    get_filename_component(name ${file} NAME)
    file(CREATE_LINK ${file} ${to}/${name} SYMBOLIC)
  endforeach()
  foreach(arch ${TX_HIP_ARCHS})
    string(REGEX MATCH "^gfx([0-9]+)([0-9])([0-9a-f])$" parts ${arch})
    set(isa ${CMAKE_MATCH_1}${CMAKE_MATCH_2}${CMAKE_MATCH_3})
    if(NOT EXISTS ${to}/oclc_isa_version_${isa}.bc)
      math(EXPR number "${CMAKE_MATCH_1} * 1000 + ${CMAKE_MATCH_2} * 100 + 0x${CMAKE_MATCH_3}")
      file(WRITE ${to}/version_${isa}.cl "__constant const int __oclc_ISA_version = ${number};\n")
      execute_process(COMMAND ${TX_HIPCXX} -x cl -target amdgcn-amd-amdhsa -nogpulib -c -emit-llvm ${to}/version_${isa}.cl
                              -o ${to}/oclc_isa_version_${isa}.bc COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endforeach()
endfunction()

# ---- which ----

if(TX_ROOMS AND NOT "backend" IN_LIST TX_ROOMS)
  return()
endif()

set(gpu_kinds ${TX_GPU})
if(NOT TX_GPU STREQUAL "none")
  find_program(TX_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  find_path(TX_ROCM include/hip/hip_runtime.h PATHS ENV ROCM_PATH /opt/rocm NO_DEFAULT_PATH)
  find_program(TX_HIPCXX NAMES amdclang++ clang++ PATHS ${TX_ROCM} PATH_SUFFIXES bin llvm/bin lib/llvm/bin
               NO_DEFAULT_PATH)
  find_program(TX_HIPCXX NAMES clang++-19 clang++-20 clang++-21)
  find_path(TX_HIP_HEADERS hip/hip_runtime.h HINTS ${TX_ROCM}/include)
endif()
if(TX_GPU STREQUAL "auto")
  set(gpu_kinds "")
  if(TX_NVCC)
    list(APPEND gpu_kinds cuda)
  endif()
  if(TX_HIPCXX AND TX_HIP_HEADERS)
    list(APPEND gpu_kinds hip)
  endif()
  message(STATUS "TX_GPU=auto: ${gpu_kinds}")
endif()
foreach(kind ${gpu_kinds})
  if(NOT kind MATCHES "^(none|cuda|hip)$")
    message(FATAL_ERROR "TX_GPU is none, cuda, hip, \"cuda;hip\" or auto, not ${kind}")
  elseif(kind STREQUAL "cuda" AND NOT TX_NVCC)
    message(FATAL_ERROR "TX_GPU=cuda: there is no nvcc in PATH, CUDA_HOME/bin or /usr/local/cuda/bin; "
                        "-DTX_NVCC=FILE says where it is")
  elseif(kind STREQUAL "hip" AND NOT (TX_HIPCXX AND TX_HIP_HEADERS))
    message(FATAL_ERROR "TX_GPU=hip needs HIP: ROCm (ROCM_PATH says where), or Debian's packages libamdhip64-dev "
                        "rocm-device-libs clang-19 lld-19 clang-tools-19")
  endif()
endforeach()

if(NOT CMAKE_CXX_COMPILER) # the answer of a time when there was none
  unset(CMAKE_CXX_COMPILER CACHE)
endif()
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
elseif(NOT gpu_kinds STREQUAL "none")
  message(FATAL_ERROR "TX_GPU=${TX_GPU} needs a C++ compiler as well: apt-get install g++")
endif()
if("cuda" IN_LIST gpu_kinds)
  tx_add_cuda()
endif()
if("hip" IN_LIST gpu_kinds)
  tx_add_hip()
endif()
# Sanitizers look at one width of a warp, because tests take four times as long there; most of the code is the same at
# both, and a release build with all tests runs both.
if(TX_TESTS AND NOT TX_TSAN AND CMAKE_CXX_COMPILER)
  tx_add_emulated(triax_emulated32 32)
  if(TX_EXTENDED AND NOT TX_SANITIZE)
    tx_add_emulated(triax_emulated64 64)
  endif()
  # With what calls a library for products, and something that stands in for the library.
  tx_add_emulated(triax_emulated_lt 32 gemm_vendor libraries_vendor)
  add_library(blaslt_stand_in MODULE ${PROJECT_SOURCE_DIR}/tests/backend/blaslt_stand_in.c)
  target_include_directories(blaslt_stand_in PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(blaslt_stand_in PRIVATE _GNU_SOURCE)
  target_compile_options(blaslt_stand_in PRIVATE -Wall -Wextra -g $<$<BOOL:${TX_WERROR}>:-Werror>
                         $<$<C_COMPILER_ID:Clang>:-mf16c>)
  target_link_libraries(blaslt_stand_in PRIVATE ${CMAKE_DL_LIBS})
  # What the emulator itself has to find.
  add_executable(emulator_faults tests/backend/emulator_faults.cc src/backend/gpu/emulate.cc)
  tx_emulated_options(emulator_faults 32)
  add_test(NAME test_emulator_faults COMMAND emulator_faults)
  set_tests_properties(test_emulator_faults PROPERTIES LABELS unit TIMEOUT 600)
  # Plans of cuDNN's, for a device that is only described: the host's part of the CUDA module, by the host's compiler.
  find_path(TX_CUDA_INCLUDE cuda_runtime_api.h HINTS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include /usr/local/cuda/include)
  find_path(TX_CUDNN_INCLUDE cudnn_graph.h HINTS ${TX_CUDA_INCLUDE} $ENV{CUDNN_HOME}/include)
  if(TX_CUDA_INCLUDE AND TX_CUDNN_INCLUDE)
    add_executable(cudnn_sdpa_plans tests/backend/cudnn_sdpa_plans.cc)
    target_include_directories(cudnn_sdpa_plans PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    target_include_directories(cudnn_sdpa_plans SYSTEM PRIVATE ${TX_CUDNN_INCLUDE} ${TX_CUDA_INCLUDE})
    target_compile_definitions(cudnn_sdpa_plans PRIVATE _GNU_SOURCE)
    target_compile_options(cudnn_sdpa_plans PRIVATE -Wall -Wextra $<$<BOOL:${TX_WERROR}>:-Werror>)
    target_link_libraries(cudnn_sdpa_plans PRIVATE ${CMAKE_DL_LIBS})
    set_target_properties(cudnn_sdpa_plans PROPERTIES CXX_STANDARD 17 CXX_EXTENSIONS ON)
  endif()
endif()
