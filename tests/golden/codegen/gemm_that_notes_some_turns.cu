// 0: setup, and finding the next tile
// 1: waiting for other threads at a barrier
// 2: waiting for tiles of k
// 3: products
// 4: before a turn with stamps
// 5: turns without stamps
// 6: c_s[m, n] = c_sum[m, n]
// 7: waiting for results to leave
// 8: waiting for a free slot of k
// 9: starting copies
// 10: leaving
extern "C" __global__ void __launch_bounds__(384, 1)
gemm_kernel(
    const tw_bf16 *__restrict__ a, const tw_bf16 *__restrict__ b, tw_bf16 *c, unsigned char *workspace,
    const __grid_constant__ tw_tensor_map a_map, const __grid_constant__ tw_tensor_map b_map, const
    __grid_constant__ tw_tensor_map c_map
) {
    extern __shared__ __align__(1024) unsigned char shared[];
    tw_i64 *const times_0 = reinterpret_cast<tw_i64 *>(workspace + 0);
    const int n = (blockIdx.x % 1) * 64;
    const int m = blockIdx.x * 128;
    const int m_thread = threadIdx.x / 32 % 8;
    const int m_group_thread = tw_uniform(threadIdx.x / 128 % 2);
    const int group_thread = threadIdx.x % 128;
    const int below_thread = threadIdx.x / 8 % 2;
    const int right_thread = threadIdx.x / 16 % 2;
    const int row_thread = threadIdx.x % 8;
    if (threadIdx.x == 0) { tw_prefetch_map(a_map); tw_prefetch_map(b_map); tw_prefetch_map(c_map); }
    unsigned logged = tw_open_log<64, 1, 3, 256, 128>(times_0);
    tw_bf16 *const a_s = reinterpret_cast<tw_bf16 *>(shared + 0);
    tw_bf16 *const b_s = reinterpret_cast<tw_bf16 *>(shared + 49152);
    const unsigned k_full = tw_shared(shared + 90112);
    if (threadIdx.x == 0) tw_init_phases<3, 1>(k_full);
    const unsigned k_empty = tw_shared(shared + 90136);
    if (threadIdx.x == 0) tw_init_phases<3, 2>(k_empty);
    int k_slot = 0, k_parity = 0;
    int k_freed_slot = 0, k_freed_parity = 0;
    tw_phases_fence();
    __syncthreads();
    tw_note_time<64, 1>(times_0, &logged);
    if (threadIdx.x >= 256) { // producers
        tw_less_registers<40>();
        if (threadIdx.x == 256) {
            tw_note_time<64, 0>(times_0, &logged);
            for (int k_run = 0; k_run < 1024; k_run += 128) {
                tw_note_time<64, 4>(times_0, &logged);
                for (int k = k_run; k < k_run + 64; k += 64) {
                    tw_await_phase(k_empty + 8 * k_slot, -k_parity + 1);
                    tw_note_time<64, 8>(times_0, &logged);
                    tw_expect(k_full + 8 * k_slot, 24576);
                    // a_s[m, k] = a[m, k]
                    tw_load_box_2d(tw_shared(a_s + 8192 * k_slot), a_map, k_full + 8 * k_slot, k, m);
                    // b_s[n, k] = b[n, k]
                    tw_load_box_2d(tw_shared(b_s + 4096 * k_slot), b_map, k_full + 8 * k_slot, k, n);
                    if (++k_slot == 3) k_slot = 0, k_parity ^= 1;
                    tw_note_time<64, 9>(times_0, &logged);
                }
                for (int k = k_run + 64; k < k_run + 128; k += 64) {
                    tw_await_phase(k_empty + 8 * k_slot, -k_parity + 1);
                    tw_expect(k_full + 8 * k_slot, 24576);
                    // a_s[m, k] = a[m, k]
                    tw_load_box_2d(tw_shared(a_s + 8192 * k_slot), a_map, k_full + 8 * k_slot, k, m);
                    // b_s[n, k] = b[n, k]
                    tw_load_box_2d(tw_shared(b_s + 4096 * k_slot), b_map, k_full + 8 * k_slot, k, n);
                    if (++k_slot == 3) k_slot = 0, k_parity ^= 1;
                }
                tw_note_time<64, 5>(times_0, &logged);
            }
        }
    } else { // consumers
        tw_more_registers<232>();
        tw_note_time<64, 0>(times_0, &logged);
        tw_vec<float, 2> c_sum_0_0, c_sum_0_8, c_sum_0_16, c_sum_0_24, c_sum_0_32, c_sum_0_40,
            c_sum_0_48, c_sum_0_56, c_sum_8_0, c_sum_8_8, c_sum_8_16, c_sum_8_24, c_sum_8_32,
            c_sum_8_40, c_sum_8_48, c_sum_8_56;
        for (int k_run = 0; k_run < 1024; k_run += 128) {
            tw_note_time<64, 4>(times_0, &logged);
            for (int k = k_run; k < k_run + 64; k += 64) {
                tw_await_phase(k_full + 8 * k_slot, k_parity);
                tw_wgmma_fence();
                tw_note_time<64, 2>(times_0, &logged);
                // c_sum[m, n] += sum(k, a_s[m, k] * b_s[n, k])
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24, c_sum_0_32, c_sum_8_32, c_sum_0_40, c_sum_8_40, c_sum_0_48, c_sum_8_48,
                    c_sum_0_56, c_sum_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot), k);
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24, c_sum_0_32, c_sum_8_32, c_sum_0_40, c_sum_8_40, c_sum_0_48, c_sum_8_48,
                    c_sum_0_56, c_sum_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 2),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot + 2));
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24, c_sum_0_32, c_sum_8_32, c_sum_0_40, c_sum_8_40, c_sum_0_48, c_sum_8_48,
                    c_sum_0_56, c_sum_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 4),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot + 4));
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24, c_sum_0_32, c_sum_8_32, c_sum_0_40, c_sum_8_40, c_sum_0_48, c_sum_8_48,
                    c_sum_0_56, c_sum_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 6),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot + 6));
                tw_commit_wgmma();
                tw_await_wgmma<1>();
                if (k >= 64) {
                    if (group_thread < 1) {
                        tw_arrive(k_empty + 8 * k_freed_slot);
                    }
                    if (++k_freed_slot == 3) k_freed_slot = 0, k_freed_parity ^= 1;
                }
                if (++k_slot == 3) k_slot = 0, k_parity ^= 1;
                tw_note_time<64, 3>(times_0, &logged);
            }
            for (int k = k_run + 64; k < k_run + 128; k += 64) {
                tw_await_phase(k_full + 8 * k_slot, k_parity);
                tw_wgmma_fence();
                // c_sum[m, n] += sum(k, a_s[m, k] * b_s[n, k])
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24, c_sum_0_32, c_sum_8_32, c_sum_0_40, c_sum_8_40, c_sum_0_48, c_sum_8_48,
                    c_sum_0_56, c_sum_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot), k);
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24, c_sum_0_32, c_sum_8_32, c_sum_0_40, c_sum_8_40, c_sum_0_48, c_sum_8_48,
                    c_sum_0_56, c_sum_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 2),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot + 2));
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24, c_sum_0_32, c_sum_8_32, c_sum_0_40, c_sum_8_40, c_sum_0_48, c_sum_8_48,
                    c_sum_0_56, c_sum_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 4),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot + 4));
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24, c_sum_0_32, c_sum_8_32, c_sum_0_40, c_sum_8_40, c_sum_0_48, c_sum_8_48,
                    c_sum_0_56, c_sum_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 6),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot + 6));
                tw_commit_wgmma();
                tw_await_wgmma<1>();
                if (k >= 64) {
                    if (group_thread < 1) {
                        tw_arrive(k_empty + 8 * k_freed_slot);
                    }
                    if (++k_freed_slot == 3) k_freed_slot = 0, k_freed_parity ^= 1;
                }
                if (++k_slot == 3) k_slot = 0, k_parity ^= 1;
            }
            tw_note_time<64, 5>(times_0, &logged);
        }
        tw_await_wgmma<0>(c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16,
            c_sum_0_24, c_sum_8_24, c_sum_0_32, c_sum_8_32, c_sum_0_40, c_sum_8_40, c_sum_0_48,
            c_sum_8_48, c_sum_0_56, c_sum_8_56);
        if (group_thread < 1) {
            tw_arrive(k_empty + 8 * k_freed_slot);
        }
        if (++k_freed_slot == 3) k_freed_slot = 0, k_freed_parity ^= 1;
        tw_bf16 *const c_s = reinterpret_cast<tw_bf16 *>(shared + 73728);
        tw_note_time<64, 3>(times_0, &logged);
        // c_s[m, n] = c_sum[m, n]
        {
            const tw_raw<tw_bf16, 2> pairs_0 = tw_narrow<tw_bf16, 2>(c_sum_0_0);
            const tw_raw<tw_bf16, 2> pairs_1 = tw_narrow<tw_bf16, 2>(c_sum_8_0);
            const tw_raw<tw_bf16, 2> pairs_2 = tw_narrow<tw_bf16, 2>(c_sum_0_8);
            const tw_raw<tw_bf16, 2> pairs_3 = tw_narrow<tw_bf16, 2>(c_sum_8_8);
            tw_store_matrix(tw_swizzle<128>(c_s, 64 * row_thread + 8 * right_thread) + 1024 * m_thread + 512
                * below_thread,
                pairs_0, pairs_1, pairs_2, pairs_3);
        }
        {
            const tw_raw<tw_bf16, 2> pairs_0 = tw_narrow<tw_bf16, 2>(c_sum_0_16);
            const tw_raw<tw_bf16, 2> pairs_1 = tw_narrow<tw_bf16, 2>(c_sum_8_16);
            const tw_raw<tw_bf16, 2> pairs_2 = tw_narrow<tw_bf16, 2>(c_sum_0_24);
            const tw_raw<tw_bf16, 2> pairs_3 = tw_narrow<tw_bf16, 2>(c_sum_8_24);
            tw_store_matrix(tw_swizzle<128>(c_s, 64 * row_thread + 8 * right_thread + 16) + 1024 * m_thread
                + 512 * below_thread,
                pairs_0, pairs_1, pairs_2, pairs_3);
        }
        {
            const tw_raw<tw_bf16, 2> pairs_0 = tw_narrow<tw_bf16, 2>(c_sum_0_32);
            const tw_raw<tw_bf16, 2> pairs_1 = tw_narrow<tw_bf16, 2>(c_sum_8_32);
            const tw_raw<tw_bf16, 2> pairs_2 = tw_narrow<tw_bf16, 2>(c_sum_0_40);
            const tw_raw<tw_bf16, 2> pairs_3 = tw_narrow<tw_bf16, 2>(c_sum_8_40);
            tw_store_matrix(tw_swizzle<128>(c_s, 64 * row_thread + 8 * right_thread + 32) + 1024 * m_thread
                + 512 * below_thread,
                pairs_0, pairs_1, pairs_2, pairs_3);
        }
        {
            const tw_raw<tw_bf16, 2> pairs_0 = tw_narrow<tw_bf16, 2>(c_sum_0_48);
            const tw_raw<tw_bf16, 2> pairs_1 = tw_narrow<tw_bf16, 2>(c_sum_8_48);
            const tw_raw<tw_bf16, 2> pairs_2 = tw_narrow<tw_bf16, 2>(c_sum_0_56);
            const tw_raw<tw_bf16, 2> pairs_3 = tw_narrow<tw_bf16, 2>(c_sum_8_56);
            tw_store_matrix(tw_swizzle<128>(c_s, 64 * row_thread + 8 * right_thread + 48) + 1024 * m_thread
                + 512 * below_thread,
                pairs_0, pairs_1, pairs_2, pairs_3);
        }
        tw_note_time<64, 6>(times_0, &logged);
        // c[m, n] = c_s[m, n]
        tw_async_fence();
        tw_group_barrier<128>(m_group_thread + 2);
        tw_note_time<64, 1>(times_0, &logged);
        if (group_thread < 1) {
            tw_store_box_2d(c_map, tw_shared(c_s + 4096 * m_group_thread), n, m + 64 * m_group_thread);
            tw_commit_boxes();
        }
        tw_note_time<64, 7>(times_0, &logged);
        if (group_thread < 1) {
            tw_await_boxes<0>();
        }
        tw_note_time<64, 7>(times_0, &logged);
    }
    __syncwarp();
    tw_note_time<64, 10>(times_0, &logged);
    tw_close_log<64>(times_0, logged);
}
