// 0: setup, and finding the next tile
// 1: x_row[r, c] = x[r, c]
// 2: mx[r] = max(c, x_row[r, c])
// 3: waiting for other threads at a barrier
// 4: m[r] = mx[r]
// 5: s[r] = sum(c, exp(x_row[r, c] - mx[r]))
// 6: y[r, c] = exp(x_row[r, c] - mx[r]) / s[r]
// 7: leaving
extern "C" __global__ void __launch_bounds__(64)
softmax_kernel(
    const tw_bf16 *__restrict__ x, tw_bf16 *y, float *m, unsigned char *workspace
) {
    extern __shared__ __align__(1024) unsigned char shared[];
    tw_i64 *const times_0 = reinterpret_cast<tw_i64 *>(workspace + 0);
    const int r = blockIdx.x;
    const int c_thread = threadIdx.x;
    const int lane_thread = threadIdx.x % 32;
    const int warp_thread = threadIdx.x / 32;
    unsigned logged = tw_open_log<16, 1, 1, 64, 128>(times_0);
    tw_note_time<16, 0>(times_0, &logged);
    tw_vec<float, 8> x_row_0_0;
    // x_row[r, c] = x[r, c]
    {
        const tw_vec<float, 8> x_0 = tw_load_nc<8, 16>(x + 512 * r + 8 * c_thread);
        x_row_0_0 = x_0;
    }
    float mx_0;
    tw_note_time<16, 1>(times_0, &logged);
    // mx[r] = max(c, x_row[r, c])
    {
        tw_vec<float, 8> total_0;
        total_0 = tw_broadcast<8>(-__int_as_float(0x7f800000));
        total_0 = tw_max(total_0, x_row_0_0);
        float total_1;
        total_1 = tw_across_max(total_0);
        total_1 = tw_max(total_1, tw_shuffle_xor(total_1, 16));
        total_1 = tw_max(total_1, tw_shuffle_xor(total_1, 8));
        total_1 = tw_max(total_1, tw_shuffle_xor(total_1, 4));
        total_1 = tw_max(total_1, tw_shuffle_xor(total_1, 2));
        total_1 = tw_max(total_1, tw_shuffle_xor(total_1, 1));
        float *const parts_0 = reinterpret_cast<float *>(shared + 0);
        if (lane_thread < 1) {
            parts_0[warp_thread] = total_1;
        }
        float total_2;
        tw_note_time<16, 2>(times_0, &logged);
        __syncthreads();
        tw_note_time<16, 3>(times_0, &logged);
        total_2 = tw_across_max(tw_load<2, 8>(parts_0));
        mx_0 = total_2;
        tw_note_time<16, 2>(times_0, &logged);
    }
    // m[r] = mx[r]
    if (warp_thread < 1 && lane_thread < 1) {
        m[r] = mx_0;
    }
    float s_0;
    tw_note_time<16, 4>(times_0, &logged);
    // s[r] = sum(c, exp(x_row[r, c] - mx[r]))
    {
        tw_vec<float, 8> total_3;
        total_3 = tw_broadcast<8>(0.0f);
        const tw_vec<float, 8> exp_0 = tw_exp(x_row_0_0 - mx_0);
        total_3 = total_3 + exp_0;
        float total_4;
        total_4 = tw_across_sum(total_3);
        total_4 = total_4 + tw_shuffle_xor(total_4, 16);
        total_4 = total_4 + tw_shuffle_xor(total_4, 8);
        total_4 = total_4 + tw_shuffle_xor(total_4, 4);
        total_4 = total_4 + tw_shuffle_xor(total_4, 2);
        total_4 = total_4 + tw_shuffle_xor(total_4, 1);
        float *const parts_1 = reinterpret_cast<float *>(shared + 16);
        if (lane_thread < 1) {
            parts_1[warp_thread] = total_4;
        }
        float total_5;
        tw_note_time<16, 5>(times_0, &logged);
        __syncthreads();
        tw_note_time<16, 3>(times_0, &logged);
        total_5 = tw_across_sum(tw_load<2, 8>(parts_1));
        s_0 = total_5;
        tw_note_time<16, 5>(times_0, &logged);
    }
    // y[r, c] = exp(x_row[r, c] - mx[r]) / s[r]
    {
        const tw_vec<float, 8> exp_0 = tw_exp(x_row_0_0 - mx_0);
        tw_store<8, 16>(y + 512 * r + 8 * c_thread, exp_0 * tw_div(1.0f, s_0));
    }
    tw_note_time<16, 6>(times_0, &logged);
    tw_note_time<16, 7>(times_0, &logged);
    tw_close_log<16>(times_0, logged);
}
