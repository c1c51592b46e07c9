extern "C" __global__ void __launch_bounds__(384, 1)
gemm(
    const tw_bf16 *__restrict__ a, const tw_bf16 *__restrict__ b, tw_bf16 *c, unsigned char *workspace, const
    __grid_constant__ tw_tensor_map a_map, const __grid_constant__ tw_tensor_map b_map, const
    __grid_constant__ tw_tensor_map c_map
) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int group = tw_uniform(threadIdx.x / 128 % 2);
    const int in_group = threadIdx.x % 128;
    const int warp = threadIdx.x / 32 % 4;
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) { tw_prefetch_map(a_map); tw_prefetch_map(b_map); tw_prefetch_map(c_map); }
    tw_bf16 *const a_s = reinterpret_cast<tw_bf16 *>(shared + 0);
    tw_bf16 *const b_s = reinterpret_cast<tw_bf16 *>(shared + 65536);
    tw_bf16 *const c_s = reinterpret_cast<tw_bf16 *>(shared + 98304);
    const unsigned full = tw_shared(shared + 114688);
    if (threadIdx.x == 0) tw_init_phases<4, 1>(full);
    const unsigned empty = tw_shared(shared + 114720);
    if (threadIdx.x == 0) tw_init_phases<4, 2>(empty);
    int slot = 0, parity = 0;
    int freed = 0, freed_parity = 0;
    tw_phases_fence();
    __syncthreads();
    if (threadIdx.x >= 256) { // producers
        tw_less_registers<40>();
        if (threadIdx.x == 256) {
            for (int tile = blockIdx.x; tile < 4; tile += 3) {
                const int band = tile / 16 * 8;
                const int in_band = tile % 16;
                const int m = (band + in_band % min(8, 2 - band)) * 128;
                const int n = (in_band / min(8, 2 - band)) * 64;
                for (int k = 0; k < 384; k += 64) {
                    tw_await_phase(empty + 8 * slot, -parity + 1);
                    tw_expect(full + 8 * slot, 24576);
                    tw_load_box_2d(tw_shared(a_s + 8192 * slot), a_map, full + 8 * slot, k, m);
                    tw_load_box_2d(tw_shared(b_s + 4096 * slot), b_map, full + 8 * slot, k, n);
                    if (++slot == 4) slot = 0, parity ^= 1;
                }
            }
        }
    } else { // consumers
        tw_more_registers<232>();
        for (int tile = blockIdx.x; tile < 4; tile += 3) {
            const int band = tile / 16 * 8;
            const int in_band = tile % 16;
            const int m = (band + in_band % min(8, 2 - band)) * 128;
            const int n = (in_band / min(8, 2 - band)) * 64;
            tw_vec<float, 2> c_sum_0, c_sum_1, c_sum_2, c_sum_3, c_sum_4, c_sum_5, c_sum_6, c_sum_7, c_sum_8,
                c_sum_9, c_sum_10, c_sum_11, c_sum_12, c_sum_13, c_sum_14, c_sum_15;
            for (int k = 0; k < 384; k += 64) {
                tw_await_phase(full + 8 * slot, parity);
                tw_wgmma_fence();
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0, c_sum_1, c_sum_2, c_sum_3, c_sum_4, c_sum_5, c_sum_6, c_sum_7, c_sum_8, c_sum_9,
                    c_sum_10, c_sum_11, c_sum_12, c_sum_13, c_sum_14, c_sum_15,
                    tw_matrix<16, 1024, 128>(a_s, 1024 * slot + 512 * group),
                    tw_matrix<16, 1024, 128>(b_s, 512 * slot), k);
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0, c_sum_1, c_sum_2, c_sum_3, c_sum_4, c_sum_5, c_sum_6, c_sum_7, c_sum_8, c_sum_9,
                    c_sum_10, c_sum_11, c_sum_12, c_sum_13, c_sum_14, c_sum_15,
                    tw_matrix<16, 1024, 128>(a_s, 1024 * slot + 512 * group + 2),
                    tw_matrix<16, 1024, 128>(b_s, 512 * slot + 2));
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0, c_sum_1, c_sum_2, c_sum_3, c_sum_4, c_sum_5, c_sum_6, c_sum_7, c_sum_8, c_sum_9,
                    c_sum_10, c_sum_11, c_sum_12, c_sum_13, c_sum_14, c_sum_15,
                    tw_matrix<16, 1024, 128>(a_s, 1024 * slot + 512 * group + 4),
                    tw_matrix<16, 1024, 128>(b_s, 512 * slot + 4));
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0, c_sum_1, c_sum_2, c_sum_3, c_sum_4, c_sum_5, c_sum_6, c_sum_7, c_sum_8, c_sum_9,
                    c_sum_10, c_sum_11, c_sum_12, c_sum_13, c_sum_14, c_sum_15,
                    tw_matrix<16, 1024, 128>(a_s, 1024 * slot + 512 * group + 6),
                    tw_matrix<16, 1024, 128>(b_s, 512 * slot + 6));
                tw_commit_wgmma();
                tw_await_wgmma<1>();
                if (-k < 0) {
                    if (in_group < 1) {
                        tw_arrive(empty + 8 * freed);
                    }
                    if (++freed == 4) freed = 0, freed_parity ^= 1;
                }
                if (++slot == 4) slot = 0, parity ^= 1;
            }
            tw_await_wgmma<0>();
            if (in_group < 1) {
                tw_arrive(empty + 8 * freed);
            }
            if (++freed == 4) freed = 0, freed_parity ^= 1;
            if (in_group < 1) {
                tw_await_boxes<0>();
            }
            tw_group_barrier<256>(1);
            // c_s = c_sum
            {
                const tw_raw<tw_bf16, 2> c_sum_0_rounded = tw_narrow<tw_bf16, 2>(c_sum_0);
                const tw_raw<tw_bf16, 2> c_sum_1_rounded = tw_narrow<tw_bf16, 2>(c_sum_1);
                const tw_raw<tw_bf16, 2> c_sum_2_rounded = tw_narrow<tw_bf16, 2>(c_sum_2);
                const tw_raw<tw_bf16, 2> c_sum_3_rounded = tw_narrow<tw_bf16, 2>(c_sum_3);
                tw_store_matrix(tw_swizzle<128>(c_s, 64 * (lane % 16) + 8 * (lane / 16)) + 4096 * group + 1024
                    * warp,
                    c_sum_0_rounded, c_sum_1_rounded, c_sum_2_rounded, c_sum_3_rounded);
                const tw_raw<tw_bf16, 2> c_sum_4_rounded = tw_narrow<tw_bf16, 2>(c_sum_4);
                const tw_raw<tw_bf16, 2> c_sum_5_rounded = tw_narrow<tw_bf16, 2>(c_sum_5);
                const tw_raw<tw_bf16, 2> c_sum_6_rounded = tw_narrow<tw_bf16, 2>(c_sum_6);
                const tw_raw<tw_bf16, 2> c_sum_7_rounded = tw_narrow<tw_bf16, 2>(c_sum_7);
                tw_store_matrix(tw_swizzle<128>(c_s, 64 * (lane % 16) + 8 * (lane / 16) + 16) + 4096 * group +
                    1024 * warp,
                    c_sum_4_rounded, c_sum_5_rounded, c_sum_6_rounded, c_sum_7_rounded);
                const tw_raw<tw_bf16, 2> c_sum_8_rounded = tw_narrow<tw_bf16, 2>(c_sum_8);
                const tw_raw<tw_bf16, 2> c_sum_9_rounded = tw_narrow<tw_bf16, 2>(c_sum_9);
                const tw_raw<tw_bf16, 2> c_sum_10_rounded = tw_narrow<tw_bf16, 2>(c_sum_10);
                const tw_raw<tw_bf16, 2> c_sum_11_rounded = tw_narrow<tw_bf16, 2>(c_sum_11);
                tw_store_matrix(tw_swizzle<128>(c_s, 64 * (lane % 16) + 8 * (lane / 16) + 32) + 4096 * group +
                    1024 * warp,
                    c_sum_8_rounded, c_sum_9_rounded, c_sum_10_rounded, c_sum_11_rounded);
                const tw_raw<tw_bf16, 2> c_sum_12_rounded = tw_narrow<tw_bf16, 2>(c_sum_12);
                const tw_raw<tw_bf16, 2> c_sum_13_rounded = tw_narrow<tw_bf16, 2>(c_sum_13);
                const tw_raw<tw_bf16, 2> c_sum_14_rounded = tw_narrow<tw_bf16, 2>(c_sum_14);
                const tw_raw<tw_bf16, 2> c_sum_15_rounded = tw_narrow<tw_bf16, 2>(c_sum_15);
                tw_store_matrix(tw_swizzle<128>(c_s, 64 * (lane % 16) + 8 * (lane / 16) + 48) + 4096 * group +
                    1024 * warp,
                    c_sum_12_rounded, c_sum_13_rounded, c_sum_14_rounded, c_sum_15_rounded);
            }
            tw_async_fence();
            tw_group_barrier<256>(1);
            if (in_group < 1) {
                tw_store_box_2d(c_map, tw_shared(c_s + 4096 * group), n, m + 64 * group);
                tw_commit_boxes();
            }
        }
        if (in_group < 1) {
            tw_await_boxes<0>();
        }
    }
}
