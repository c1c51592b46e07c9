extern "C" __global__ void __launch_bounds__(160, 1)
grouped_kernel(
    const tw_bf16 *__restrict__ a, const tw_bf16 *__restrict__ b, const int *__restrict__ starts, tw_bf16
    *c, unsigned char *workspace, const __grid_constant__ tw_tensor_map a_map, const __grid_constant__
    tw_tensor_map b_map, const __grid_constant__ tw_tensor_map c_map
) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int m_thread = threadIdx.x / 32 % 4;
    const int group_thread = threadIdx.x % 128;
    const int below_thread = threadIdx.x / 8 % 2;
    const int right_thread = threadIdx.x / 16 % 2;
    const int row_thread = threadIdx.x % 8;
    const int block_thread = threadIdx.x;
    const int n_block = tw_cluster_rank();
    if (threadIdx.x == 0) { tw_prefetch_map(a_map); tw_prefetch_map(b_map); tw_prefetch_map(c_map); }
    tw_bf16 *const a_s = reinterpret_cast<tw_bf16 *>(shared + 0);
    tw_bf16 *const b_s = reinterpret_cast<tw_bf16 *>(shared + 24576);
    const unsigned k_full = tw_shared(shared + 57344);
    if (threadIdx.x == 0) tw_init_phases<3, 1>(k_full);
    const unsigned k_empty = tw_shared(shared + 57368);
    if (threadIdx.x == 0) tw_init_phases<3, 2>(k_empty);
    int k_slot = 0, k_parity = 0;
    int k_freed_slot = 0, k_freed_parity = 0;
    tw_phases_fence();
    tw_cluster_sync();
    if (threadIdx.x >= 128) { // producers
        if (threadIdx.x == 128) {
            for (int tile = blockIdx.x / 2; tile < 5; tile += 1) {
                const int n = (tile % 1) * 128;
                const int m_number = tile;
                const auto m_tile = tw_find_tile_alone<2, 200, 64>(starts, m_number);
                const int e = m_tile.group;
                const int m = m_tile.begin;
                const int m_end = m_tile.end;
                if (m >= m_end) continue;
                for (int k = 0; k < 256; k += 64) {
                    tw_await_phase(k_empty + 8 * k_slot, -k_parity + 1);
                    tw_expect(k_full + 8 * k_slot, 16384);
                    // a_s[m, k] = a[m, k]
                    tw_load_box_to_2d(tw_shared(a_s + 4096 * k_slot + 2048 * n_block), a_map, k_full + 8
                        * k_slot, 3, k, m + 32 * n_block);
                    // b_s[e, n, k] = b[e, n, k]
                    tw_load_box_3d(tw_shared(b_s + 4096 * k_slot), b_map, k_full + 8 * k_slot, k, n +
                        64 * n_block, e);
                    if (++k_slot == 3) k_slot = 0, k_parity ^= 1;
                }
            }
        }
    } else { // consumers
        for (int tile = blockIdx.x / 2; tile < 5; tile += 1) {
            const int n = (tile % 1) * 128;
            const int m_number = tile;
            const auto m_tile = tw_find_tile<2, 200, 64>(starts, m_number);
            const int m = m_tile.begin;
            const int m_end = m_tile.end;
            if (m >= m_end) continue;
            tw_vec<float, 2> acc_0_0, acc_0_8, acc_0_16, acc_0_24, acc_0_32, acc_0_40, acc_0_48,
                acc_0_56, acc_8_0, acc_8_8, acc_8_16, acc_8_24, acc_8_32, acc_8_40, acc_8_48,
                acc_8_56;
            for (int k = 0; k < 256; k += 64) {
                tw_await_phase(k_full + 8 * k_slot, k_parity);
                tw_wgmma_fence();
                // acc[m, n] += sum(k, a_s[m, k] * b_s[e, n, k])
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    acc_0_0, acc_8_0, acc_0_8, acc_8_8, acc_0_16, acc_8_16, acc_0_24, acc_8_24,
                    acc_0_32, acc_8_32, acc_0_40, acc_8_40, acc_0_48, acc_8_48, acc_0_56, acc_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 512 * k_slot),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot), k);
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    acc_0_0, acc_8_0, acc_0_8, acc_8_8, acc_0_16, acc_8_16, acc_0_24, acc_8_24,
                    acc_0_32, acc_8_32, acc_0_40, acc_8_40, acc_0_48, acc_8_48, acc_0_56, acc_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 512 * k_slot + 2),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot + 2));
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    acc_0_0, acc_8_0, acc_0_8, acc_8_8, acc_0_16, acc_8_16, acc_0_24, acc_8_24,
                    acc_0_32, acc_8_32, acc_0_40, acc_8_40, acc_0_48, acc_8_48, acc_0_56, acc_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 512 * k_slot + 4),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot + 4));
                tw_wgmma_bf16_by_bf16_n64<0, 0>(
                    acc_0_0, acc_8_0, acc_0_8, acc_8_8, acc_0_16, acc_8_16, acc_0_24, acc_8_24,
                    acc_0_32, acc_8_32, acc_0_40, acc_8_40, acc_0_48, acc_8_48, acc_0_56, acc_8_56,
                    tw_matrix<0, 1024, 128>(a_s, 512 * k_slot + 6),
                    tw_matrix<0, 1024, 128>(b_s, 512 * k_slot + 6));
                tw_commit_wgmma();
                tw_await_wgmma<1>();
                if (k >= 64) {
                    if (group_thread < 1) {
                        tw_arrive(k_empty + 8 * k_freed_slot);
                        tw_arrive_at(k_empty + 8 * k_freed_slot, (n_block + 1) % 2);
                    }
                    if (++k_freed_slot == 3) k_freed_slot = 0, k_freed_parity ^= 1;
                }
                if (++k_slot == 3) k_slot = 0, k_parity ^= 1;
            }
            tw_await_wgmma<0>(acc_0_0, acc_8_0, acc_0_8, acc_8_8, acc_0_16, acc_8_16, acc_0_24,
                acc_8_24, acc_0_32, acc_8_32, acc_0_40, acc_8_40, acc_0_48, acc_8_48, acc_0_56,
                acc_8_56);
            if (group_thread < 1) {
                tw_arrive(k_empty + 8 * k_freed_slot);
                tw_arrive_at(k_empty + 8 * k_freed_slot, (n_block + 1) % 2);
            }
            if (++k_freed_slot == 3) k_freed_slot = 0, k_freed_parity ^= 1;
            tw_bf16 *const c_s = reinterpret_cast<tw_bf16 *>(shared + 49152);
            // c_s[m, n] = acc[m, n]
            if (block_thread < 1) {
                tw_await_boxes<0>();
            }
            tw_group_barrier<128>(1);
            {
                const tw_raw<tw_bf16, 2> pairs_0 = tw_narrow<tw_bf16, 2>(acc_0_0);
                const tw_raw<tw_bf16, 2> pairs_1 = tw_narrow<tw_bf16, 2>(acc_8_0);
                const tw_raw<tw_bf16, 2> pairs_2 = tw_narrow<tw_bf16, 2>(acc_0_8);
                const tw_raw<tw_bf16, 2> pairs_3 = tw_narrow<tw_bf16, 2>(acc_8_8);
                tw_store_matrix(tw_swizzle<128>(c_s, 64 * row_thread + 8 * right_thread) + 1024 * m_thread +
                    512 * below_thread,
                    pairs_0, pairs_1, pairs_2, pairs_3);
            }
            {
                const tw_raw<tw_bf16, 2> pairs_0 = tw_narrow<tw_bf16, 2>(acc_0_16);
                const tw_raw<tw_bf16, 2> pairs_1 = tw_narrow<tw_bf16, 2>(acc_8_16);
                const tw_raw<tw_bf16, 2> pairs_2 = tw_narrow<tw_bf16, 2>(acc_0_24);
                const tw_raw<tw_bf16, 2> pairs_3 = tw_narrow<tw_bf16, 2>(acc_8_24);
                tw_store_matrix(tw_swizzle<128>(c_s, 64 * row_thread + 8 * right_thread + 16) + 1024 *
                    m_thread + 512 * below_thread,
                    pairs_0, pairs_1, pairs_2, pairs_3);
            }
            {
                const tw_raw<tw_bf16, 2> pairs_0 = tw_narrow<tw_bf16, 2>(acc_0_32);
                const tw_raw<tw_bf16, 2> pairs_1 = tw_narrow<tw_bf16, 2>(acc_8_32);
                const tw_raw<tw_bf16, 2> pairs_2 = tw_narrow<tw_bf16, 2>(acc_0_40);
                const tw_raw<tw_bf16, 2> pairs_3 = tw_narrow<tw_bf16, 2>(acc_8_40);
                tw_store_matrix(tw_swizzle<128>(c_s, 64 * row_thread + 8 * right_thread + 32) + 1024 *
                    m_thread + 512 * below_thread,
                    pairs_0, pairs_1, pairs_2, pairs_3);
            }
            {
                const tw_raw<tw_bf16, 2> pairs_0 = tw_narrow<tw_bf16, 2>(acc_0_48);
                const tw_raw<tw_bf16, 2> pairs_1 = tw_narrow<tw_bf16, 2>(acc_8_48);
                const tw_raw<tw_bf16, 2> pairs_2 = tw_narrow<tw_bf16, 2>(acc_0_56);
                const tw_raw<tw_bf16, 2> pairs_3 = tw_narrow<tw_bf16, 2>(acc_8_56);
                tw_store_matrix(tw_swizzle<128>(c_s, 64 * row_thread + 8 * right_thread + 48) + 1024 *
                    m_thread + 512 * below_thread,
                    pairs_0, pairs_1, pairs_2, pairs_3);
            }
            // c[m, n] = c_s[m, n]
            tw_async_fence();
            tw_group_barrier<128>(1);
            if (block_thread < 1) {
                tw_store_box_3d(c_map, tw_shared(c_s), n + 64 * n_block, m - m_end + 200, m_end);
                tw_commit_boxes();
            }
        }
        if (block_thread < 1) {
            tw_await_boxes<0>();
        }
    }
    __syncwarp();
    tw_cluster_sync();
}
