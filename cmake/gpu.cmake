# gpu.cmake - the modules that know a GPU. A file that is in src/backend/gpu/ is in all of them, unless its name says
# otherwise: *_emulated.cu and emulate.cc are the emulated ones', *_cuda.cu and *_hip.cu a vendor's.
file(GLOB gpu_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/gpu/*.cu)
set(gpu_common ${PROJECT_SOURCE_DIR}/src/backend/tensor.c)

# Emulated: g++ takes *.cu as C++, by way of a file that includes it.
function(tx_add_emulated warp)
  set(target triax_emulated${warp})
  set(sources ${PROJECT_SOURCE_DIR}/src/backend/gpu/emulate.cc ${gpu_common})
  foreach(source ${gpu_sources})
    get_filename_component(name ${source} NAME_WE)
    if(name MATCHES "_(cuda|hip|vendor)$")
      continue()
    endif()
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${target}/${name}.cc CONTENT "#include \"backend/gpu/${name}.cu\"\n" @ONLY)
    list(APPEND sources ${PROJECT_BINARY_DIR}/${target}/${name}.cc)
  endforeach()
  add_library(${target} MODULE ${sources})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE TX_GPU_EMULATED=${warp} TX_VERSION="${PROJECT_VERSION}"
                             TX_GPU_KIND="emulated" TX_GPU_VISIBLE="TX_GPU_EMULATED_COUNT")
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unknown-pragmas -O2 -g -ffp-contract=off
                         -ffunction-sections $<$<BOOL:${TX_WERROR}>:-Werror>
                         $<$<BOOL:${TX_SANITIZE}>:-fsanitize=address,undefined -fno-sanitize-recover=all>)
  target_link_options(${target} PRIVATE -Wl,--gc-sections $<$<BOOL:${TX_SANITIZE}>:-fsanitize=address,undefined>
                      $<$<NOT:$<OR:$<BOOL:${TX_SANITIZE}>,$<BOOL:${TX_TSAN}>>>:-Wl,-z,defs>)
  set_target_properties(${target} PROPERTIES CXX_STANDARD 17 CXX_EXTENSIONS ON CXX_VISIBILITY_PRESET hidden)
endfunction()

if(TX_TESTS AND NOT TX_TSAN AND (NOT TX_ROOMS OR "backend" IN_LIST TX_ROOMS))
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    tx_add_emulated(32)
    tx_add_emulated(64)
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
endif()
