# The CPU backend's loops and inner kernels, compiled once per instruction-set level (core/backends/cpu/loops/*.cpp and
# kernels/*.cpp, namespace by TD_ISA_NAMESPACE) and chosen at run time; and the backend's link libraries.
if(TARGET tandem_cpu)
  target_link_libraries(tandem_cpu PRIVATE DNNL::dnnl OpenMP::OpenMP_CXX)
  file(GLOB loop_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/backends/cpu/loops/*.cpp
       ${CMAKE_SOURCE_DIR}/core/backends/cpu/kernels/*.cpp)
  set(loop_optimization -O3)
  if(TANDEM_SANITIZE)
    set(loop_optimization -O1)  # instrumented loops take ten minutes to optimise, and are checked for values only
  endif()
  foreach(level IN ITEMS v2 v3 v4)
    if(loop_sources)
      add_library(tandem_cpu_${level} OBJECT ${loop_sources})
      target_link_libraries(tandem_cpu_${level} PUBLIC tandem_tensor OpenMP::OpenMP_CXX)
      target_compile_definitions(tandem_cpu_${level} PRIVATE TD_ISA_NAMESPACE=isa_${level} TD_ISA_LEVEL_${level}=1)
      target_compile_options(tandem_cpu_${level} PRIVATE -march=x86-64-${level} ${loop_optimization} -fno-math-errno -fno-trapping-math)
      if(level STREQUAL v4)
        target_compile_options(tandem_cpu_v4 PRIVATE -mprefer-vector-width=512)
      endif()
      target_link_libraries(tandem_cpu PUBLIC tandem_cpu_${level})
    endif()
  endforeach()
  # The row kernel on AMX tiles.
  add_library(tandem_cpu_tiles OBJECT ${CMAKE_SOURCE_DIR}/core/backends/cpu/tiles/tile_row_amx.cpp
              ${CMAKE_SOURCE_DIR}/core/backends/cpu/tiles/tile_row_portable.cpp)
  target_link_libraries(tandem_cpu_tiles PUBLIC tandem_tensor)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/core/backends/cpu/tiles/tile_row_amx.cpp
                              PROPERTIES COMPILE_OPTIONS "-march=x86-64-v4;-mamx-tile;-mamx-bf16;-O3")
  target_link_libraries(tandem_cpu PUBLIC tandem_cpu_tiles)
  # v4's tiles of 16 lanes on AVX2: what a machine without AVX-512 can prove of them (tests/cpu).
  if(TANDEM_TESTS)
    file(GLOB kernel_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/backends/cpu/kernels/*.cpp)
    add_library(tandem_cpu_v4_on_v3 OBJECT ${kernel_sources})
    target_link_libraries(tandem_cpu_v4_on_v3 PUBLIC tandem_tensor)
    target_compile_definitions(tandem_cpu_v4_on_v3 PRIVATE TD_ISA_NAMESPACE=isa_v4_on_v3 TD_ISA_LEVEL_v3=1
                                                           TD_WIDE_LANES=1)
    target_compile_options(tandem_cpu_v4_on_v3 PRIVATE -march=x86-64-v3 -O2)
    target_link_libraries(tandem_cpu PUBLIC tandem_cpu_v4_on_v3)
  endif()
endif()
